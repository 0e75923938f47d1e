{{- define "a2a-taskstore.name" -}}
{{- if contains "a2a-taskstore" .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-a2a-taskstore" (.Release.Name | trunc 38 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "a2a-taskstore.selector" -}}
app.kubernetes.io/name: a2a-taskstore
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "a2a-taskstore.labels" -}}
{{ include "a2a-taskstore.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") | quote }}
{{- end -}}

{{- define "a2a-taskstore.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end -}}

{{- /* The backend that the mode and the database choose. */ -}}
{{- define "a2a-taskstore.backend" -}}
{{- if or (eq .Values.mode "shared") (and (eq .Values.mode "sidecar") (or .Values.postgres.existingSecret .Values.postgres.dsn)) -}}
postgres
{{- else -}}
pebble
{{- end -}}
{{- end -}}

{{- define "a2a-taskstore.dsnSecret" -}}
{{- .Values.postgres.existingSecret | default (printf "%s-postgres" (include "a2a-taskstore.name" .)) -}}
{{- end -}}

{{- define "a2a-taskstore.credentialsSecret" -}}
{{- if .Values.auth.existingSecret -}}
{{- .Values.auth.existingSecret -}}
{{- else if .Values.auth.principals -}}
{{- printf "%s-credentials" (include "a2a-taskstore.name" .) -}}
{{- end -}}
{{- end -}}
