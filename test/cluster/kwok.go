// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"text/template"
)

//go:embed kwok.yaml
var kwokTemplate string

func (c *Cluster) kwokConfig() string { return c.path("kwok.yaml") }

func (c *Cluster) writeKwokConfig() error {
	t, err := template.New("kwok.yaml").Delims("[[", "]]").Parse(kwokTemplate)
	if err != nil {
		return fmt.Errorf("stages of kwok: %w", err)
	}
	var config bytes.Buffer
	if err := t.Execute(&config, nil); err != nil {
		return fmt.Errorf("stages of kwok: %w", err)
	}
	if err := os.WriteFile(c.kwokConfig(), config.Bytes(), 0o600); err != nil {
		return fmt.Errorf("stages of kwok: %w", err)
	}
	return nil
}
