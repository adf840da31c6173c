// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// marshalled counts how often it is encoded.
type marshalled struct{ times *int }

func (m marshalled) MarshalText() ([]byte, error) {
	*m.times++
	return []byte("encoded"), nil
}

// TestLoggerIsLazy: the values of a logger are encoded when something is logged, once, and the line is as without that.
func TestLoggerIsLazy(t *testing.T) {
	g := NewWithT(t)
	var line, expected bytes.Buffer
	times, ref := 0, types.NamespacedName{Namespace: "shop", Name: "web"}
	log := newLogger(zap.WriteTo(&line)).WithName("manager").WithValues("UnitedDeployment", ref).WithValues("value", marshalled{&times})
	log.V(5).Info("nobody reads this")
	g.Expect(times).To(BeZero())
	log.Info("first", "a", 1)
	g.Expect(times).To(Equal(1))
	zap.New(zap.WriteTo(&expected)).WithName("manager").WithValues("UnitedDeployment", ref, "value", "encoded").Info("first", "a", 1)
	withoutTime := func(line string) string {
		_, rest, _ := bytes.Cut([]byte(line), []byte(`"logger"`))
		return string(rest)
	}
	g.Expect(withoutTime(line.String())).To(Equal(withoutTime(expected.String())))
	g.Expect(line.String()).To(ContainSubstring(`"shop"`))
	log.Info("second")
	g.Expect(times).To(Equal(1))
}
