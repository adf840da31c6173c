// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/go-logr/logr"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// newLogger returns a logger that encodes its values only when something is logged: each pass has a logger with values of its
// own, and most log nothing.
func newLogger(opts ...zap.Opts) logr.Logger {
	lazily := func(core zapcore.Core) zapcore.Core { return lazyCore{core} }
	return zap.New(append(opts, zap.RawZapOpts(uberzap.WrapCore(lazily)))...)
}

type lazyCore struct{ zapcore.Core }

func (c lazyCore) With(fields []zapcore.Field) zapcore.Core {
	return lazyCore{zapcore.NewLazyWith(c.Core, fields)}
}
