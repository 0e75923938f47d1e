{{- /* The flags and the environment of serve, the same in all modes. */ -}}
{{- define "a2a-taskstore.args" -}}
{{- $backend := include "a2a-taskstore.backend" . -}}
- serve
{{- if eq .Values.mode "sidecar" }}
- --listen=127.0.0.1:{{ .Values.service.port }}
{{- else }}
- --listen=:{{ .Values.service.port }}
{{- end }}
- --admin-listen=:{{ .Values.metrics.port }}
- --backend={{ $backend }}
{{- if eq $backend "postgres" }}
- --postgres-max-conns={{ .Values.postgres.maxConns }}
- --postgres-statement-mode={{ .Values.postgres.statementMode }}
- --notify={{ ternary "on" "off" .Values.postgres.notify }}
{{- if ne .Values.postgres.migrate "start" }}
- --no-postgres-migrate
{{- end }}
{{- else }}
- --data-dir=/data
- --cache-bytes={{ .Values.cacheBytes }}
{{- end }}
{{- if .Values.tls.existingSecret }}
- --tls-cert=/etc/a2a-taskstore/tls/tls.crt
- --tls-key=/etc/a2a-taskstore/tls/tls.key
{{- if .Values.tls.clientCA }}
- --tls-client-ca=/etc/a2a-taskstore/tls/ca.crt
{{- end }}
{{- end }}
{{- if include "a2a-taskstore.credentialsSecret" . }}
- --credentials-file=/etc/a2a-taskstore/credentials/{{ .Values.auth.secretKey }}
{{- end }}
{{- if and .Values.insecure (ne .Values.mode "sidecar") }}
- --insecure
{{- end }}
- --retain-terminal={{ .Values.retention.terminal }}
- --retain-idle={{ .Values.retention.idle }}
- --drain-delay={{ .Values.drain.delay }}s
- --drain-timeout={{ .Values.drain.timeout }}s
- --log-level={{ .Values.log.level }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "a2a-taskstore.env" -}}
{{- if eq (include "a2a-taskstore.backend" .) "postgres" }}
- name: A2A_TASKSTORE_POSTGRES_DSN
  valueFrom:
    secretKeyRef:
      name: {{ include "a2a-taskstore.dsnSecret" . }}
      key: {{ .Values.postgres.secretKey }}
{{- end }}
{{- with .Values.goMemLimit }}
- name: GOMEMLIMIT
  value: {{ . | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "a2a-taskstore.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "a2a-taskstore.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "a2a-taskstore.container" -}}
name: a2a-taskstore
image: {{ include "a2a-taskstore.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  {{- include "a2a-taskstore.args" . | nindent 2 }}
env:
  {{- include "a2a-taskstore.env" . | trim | nindent 2 }}
ports:
  {{- if ne .Values.mode "sidecar" }}
  - name: grpc
    containerPort: {{ .Values.service.port }}
  {{- end }}
  - name: admin
    containerPort: {{ .Values.metrics.port }}
# Liveness never asks the database: restarting replicas does not bring it back.
livenessProbe:
  httpGet: {path: /livez, port: {{ .Values.metrics.port }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: {{ .Values.metrics.port }}}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
# A migration or the recovery of a large store may take its time.
startupProbe:
  httpGet: {path: /livez, port: {{ .Values.metrics.port }}}
  periodSeconds: 2
  failureThreshold: 150
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- include "a2a-taskstore.securityContext" . | nindent 2 }}
  {{- if eq .Values.mode "sidecar" }}
  runAsNonRoot: true
  runAsUser: 65532
  seccompProfile:
    type: RuntimeDefault
  {{- end }}
volumeMounts:
  {{- if eq (include "a2a-taskstore.backend" .) "pebble" }}
  - name: {{ include "a2a-taskstore.volume" . }}
    mountPath: /data
  {{- end }}
  {{- if .Values.tls.existingSecret }}
  - name: a2a-taskstore-tls
    mountPath: /etc/a2a-taskstore/tls
    readOnly: true
  {{- end }}
  {{- if include "a2a-taskstore.credentialsSecret" . }}
  - name: a2a-taskstore-credentials
    mountPath: /etc/a2a-taskstore/credentials
    readOnly: true
  {{- end }}
{{- end -}}

{{- define "a2a-taskstore.volume" -}}
a2a-taskstore-data
{{- end -}}

{{- /* Volumes of the container. Whole Secrets are mounted, never a subPath: those would not follow a change. */ -}}
{{- define "a2a-taskstore.volumes" -}}
{{- if and (eq .Values.mode "sidecar") (eq (include "a2a-taskstore.backend" .) "pebble") }}
- name: {{ include "a2a-taskstore.volume" . }}
  emptyDir: {}
{{- end }}
{{- if .Values.tls.existingSecret }}
- name: a2a-taskstore-tls
  secret:
    secretName: {{ .Values.tls.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- with include "a2a-taskstore.credentialsSecret" . }}
- name: a2a-taskstore-credentials
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- /* An item of another pod's initContainers: with restartPolicy Always it starts before the pod's containers and ends after them. */ -}}
{{- define "a2a-taskstore.sidecar" -}}
- {{ include "a2a-taskstore.container" . | nindent 2 | trim }}
  restartPolicy: Always
{{- end -}}
