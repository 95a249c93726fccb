{{/* Labels of every object: those of the kustomize base, and Helm's own. */}}
{{- define "tandem.labels" -}}
{{ include "tandem.podLabels" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Labels of the pods: without those that change with the chart, so that a new chart alone restarts nothing. */}}
{{- define "tandem.podLabels" -}}
{{ include "tandem.selector" . }}
app.kubernetes.io/component: scheduler
app.kubernetes.io/part-of: tandem
{{- end }}

{{/* Whether each copy schedules, since none waits for a Lease: a text, or none. */}}
{{- define "tandem.isAlone" -}}
{{- $election := .Values.configuration.kubeScheduler.leaderElection | default dict -}}
{{- if or (eq (toString (get $election "leaderElect")) "false") (has "--leader-elect=false" .Values.extraArgs) }}true{{ end -}}
{{- end }}

{{/* Nothing, or the end: what the schema of the values can't say, since it depends on several of them. */}}
{{- define "tandem.checked" -}}
{{- if and (include "tandem.isAlone" .) (gt (int .Values.replicas) 1) -}}
{{ fail "replicas: without leader election (configuration.kubeScheduler.leaderElection.leaderElect) each copy would schedule the same pods: 1 is the most" }}
{{- end -}}
{{- if eq (printf "%s/%s" (include "tandem.leaseNamespace" .) (include "tandem.lease" .)) "kube-system/kube-scheduler" -}}
{{ fail "configuration.kubeScheduler.leaderElection.resourceName: the Lease kube-system/kube-scheduler is kube-scheduler's own: with it only one of the two would run" }}
{{- end -}}
{{- $own := include "tandem.podLabels" . | fromYaml -}}
{{- range $key, $_ := .Values.podLabels -}}
{{- if hasKey $own $key }}{{ fail (printf "podLabels: %s is a label that the chart itself gives the pods" $key) }}{{ end -}}
{{- end -}}
{{- end }}

{{- define "tandem.selector" -}}
app.kubernetes.io/name: {{ .Values.name }}
{{- end }}

{{- define "tandem.metadata" -}}
name: {{ .Values.name }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "tandem.labels" . | nindent 2 }}
{{- end }}

{{- define "tandem.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "tandem.priorityClass" -}}
{{ .Values.priorityClass.name | default .Values.name }}
{{- end }}

{{/* Name and namespace of the Lease, stated or not. */}}
{{- define "tandem.lease" -}}
{{- $election := .Values.configuration.kubeScheduler.leaderElection | default dict -}}
{{ get $election "resourceName" | default .Values.name }}
{{- end }}

{{- define "tandem.leaseNamespace" -}}
{{- $election := .Values.configuration.kubeScheduler.leaderElection | default dict -}}
{{ get $election "resourceNamespace" | default .Release.Namespace }}
{{- end }}

{{/*
One object of a file that the kustomize base and the chart share, with this release's names: a dict of "object" and
"root". The account that people ask with keeps its name, which `tandem why` knows.
*/}}
{{- define "tandem.shared" -}}
{{- $root := .root -}}
{{- $object := .object -}}
{{- $metadata := $object.metadata -}}
{{- $name := $root.Values.name -}}
{{- $ofLease := and (eq $metadata.name "tandem-scheduler") (eq (get $metadata "namespace") "tandem-system") (has $object.kind (list "Role" "RoleBinding")) -}}
{{- /* In kube-system there is another Role of that name: for the authority of client certificates. */ -}}
{{- if and $ofLease (eq (include "tandem.leaseNamespace" $root) "kube-system") }}{{ $name = printf "%s-lease" $name }}{{ end -}}
{{- if eq $metadata.name "tandem-scheduler" }}{{ $_ := set $metadata "name" $name }}{{ end -}}
{{- if and (eq $metadata.name "tandem-reader") (hasPrefix "Cluster" $object.kind) -}}
{{ $_ := set $metadata "name" (include "tandem.clusterReader" $root) }}
{{- end -}}
{{- if eq (get $metadata "namespace") "tandem-system" -}}
{{ $_ := set $metadata "namespace" (ternary (include "tandem.leaseNamespace" $root) $root.Release.Namespace $ofLease) }}
{{- end -}}
{{- $_ := set $metadata "labels" (include "tandem.labels" $root | fromYaml) -}}
{{- range $rule := $object.rules -}}
{{- if eq (get $rule "resourceNames" | default list | join ",") "tandem-scheduler" -}}
{{ $_ := set $rule "resourceNames" (list (include "tandem.lease" $root)) }}
{{- end -}}
{{- end -}}
{{- with get $object "roleRef" -}}
{{- if eq .name "tandem-scheduler" }}{{ $_ := set . "name" $name }}{{ end -}}
{{- if eq .name "tandem-reader" }}{{ $_ := set . "name" (include "tandem.clusterReader" $root) }}{{ end -}}
{{- end -}}
{{- range $object.subjects -}}
{{- if eq .name "tandem-scheduler" }}{{ $_ := set . "name" $root.Values.name }}{{ end -}}
{{- $_ := set . "namespace" $root.Release.Namespace -}}
{{- end -}}
{{ toYaml $object }}
{{- end }}

{{- define "tandem.clusterReader" -}}
{{ eq .Values.name "tandem-scheduler" | ternary "tandem-reader" (printf "%s-reader" .Values.name) }}
{{- end }}
