{{- /* What the pods of modes shared and embedded have in common. */ -}}
{{- define "a2a-taskstore.podTemplate" -}}
metadata:
  labels:
    {{- include "a2a-taskstore.selector" . | nindent 4 }}
    app.kubernetes.io/component: store
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  # Longer than the drain, so that it is never cut short.
  terminationGracePeriodSeconds: {{ add .Values.drain.delay .Values.drain.timeout 10 }}
  securityContext:
    {{- include "a2a-taskstore.podSecurityContext" . | nindent 4 }}
  containers:
    - {{ include "a2a-taskstore.container" . | nindent 6 | trim }}
  {{- with include "a2a-taskstore.volumes" . | trim }}
  volumes:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if eq .Values.mode "shared" }}
  topologySpreadConstraints:
    {{- with .Values.topologySpreadConstraints }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "a2a-taskstore.selector" $ | nindent 10 }}
          app.kubernetes.io/component: store
    {{- end }}
    {{- end }}
  {{- end }}
{{- end -}}
