// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// refusal returns an answer that the API server could give.
func refusal(c *Call, code int, reason metav1.StatusReason) *http.Response {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "injected by the test: " + string(reason),
	})
	if err != nil {
		panic(fmt.Sprintf("refusal: %v", err))
	}
	answer := &http.Response{
		StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Request: c.Request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	if code == http.StatusTooManyRequests {
		answer.Header.Set("Retry-After", "1")
	}
	return answer
}
