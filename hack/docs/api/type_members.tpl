{{- /* A comment as Markdown: < would begin an HTML tag. */ -}}
{{- define "prose" }}{{ . | replace "<" "&lt;" | trim }}{{ end -}}

{{- /* Go types that are no types of the API are called what a user writes there. */ -}}
{{- define "fieldType" }}
  {{- $name := markdownRenderType .Type }}
  {{- $name = regexReplaceAll "\\[RawExtension\\]\\([^)]*\\)" $name "object" }}
  {{- $name = regexReplaceAll "\\[IntOrString\\]\\([^)]*\\)" $name "integer or string" }}
  {{- regexReplaceAll "object \\(keys:string, values:(.*)\\)$" $name "map of string to ${1}" }}
{{- end -}}

{{- define "fieldDefault" }}
  {{- if has "Required: {}" .Validation }}required{{ else if .Default }}`{{ .Default | replace "{  }" "{}" }}`{{ end }}
{{- end -}}

{{- /* Limits are told where they say something: not the largest int32, nor how long the text of an integer-or-string may be. */ -}}
{{- define "fieldDoc" }}
  {{- if eq .Name "metadata" }}See the Kubernetes API.
  {{- else }}{{ .Doc | replace "<" "&lt;" | replace "|" "\\|" | trim | replace "\n\n" "<br><br>" | replace "\n" " " }}
  {{- $text := has "XIntOrString: {}" .Validation }}
  {{- range .Validation }}
    {{- if regexMatch "^(Minimum|MinLength|MaxLength|MinItems|MaxItems|MaxProperties): " . }}
      {{- if not (or (contains "e+" .) (and $text (hasPrefix "MaxLength" .))) }} {{ . }}.{{ end }}
    {{- end }}
  {{- end }}
  {{- end }}
{{- end -}}
