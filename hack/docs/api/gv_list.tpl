{{- define "gvList" -}}
<!-- Generated from the types in apis/ by make generate. DO NOT EDIT. -->

# API reference
{{ range . }}{{ template "gvDetails" . }}{{ end -}}
{{- end -}}
