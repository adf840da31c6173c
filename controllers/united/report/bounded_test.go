// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/report"
)

// said are the texts of a value that are for people.
func said(v reflect.Value) (all []string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			all = said(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, said(v.Index(i))...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			switch field := v.Type().Field(i); {
			case field.Name == "Message" || field.Name == "Summary":
				all = append(all, v.Field(i).String())
			case field.Type.String() != "v1.Time":
				all = append(all, said(v.Field(i))...)
			}
		}
	}
	return all
}

// full returns a status as large as the API has it, that says text everywhere.
func full(text string) *v1alpha1.UnitedDeploymentStatus {
	status := &v1alpha1.UnitedDeploymentStatus{Summary: text, Rollout: &v1alpha1.RolloutStatus{Message: text}}
	for i := range 10 {
		status.Conditions = append(status.Conditions, metav1.Condition{Type: fmt.Sprint("T", i), Message: text})
		status.Rollout.Checks = append(status.Rollout.Checks, v1alpha1.CheckStatus{Name: fmt.Sprint("c", i), Message: text})
	}
	for i := range 100 {
		status.Subsets = append(status.Subsets, v1alpha1.SubsetStatus{
			Name: fmt.Sprint("zone-", i), Message: text, Cap: &v1alpha1.SubsetCap{Message: text}, Conditions: []metav1.Condition{{Type: "Schedulable", Message: text}},
		})
	}
	return status
}

// Whatever anybody says, however long, the status has room for it twice in a request, and nothing in it is obeyed by a terminal.
func TestBounded(t *testing.T) {
	texts := map[string]string{
		"short": "waiting for web-0", "none": "", "long": strings.Repeat("spec: Invalid value; ", 60_000), "escaped in JSON": strings.Repeat("<", 1<<20), "quoted": strings.Repeat(`"\`, 1<<19),
		"wide": strings.Repeat("日", 1<<18), "control": "a\x1b[2J\r\n\tb\u202ec\u0085d\u200b" + strings.Repeat("\x00", 1<<20), "no UTF-8": strings.Repeat("\xff", 1<<20), "spaces": strings.Repeat(" \n", 1<<19),
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			was := full(text)
			if len(said(reflect.ValueOf(was))) != 1+1+10+10+300 {
				t.Fatal("not all texts are found")
			}
			is := report.Bounded(was)
			if said(reflect.ValueOf(was))[0] != text {
				t.Error("the status itself has changed")
			}
			raw, err := json.Marshal(is)
			if err != nil || len(raw) > 500_000 {
				t.Errorf("it has %d bytes, %v", len(raw), err)
			}
			for _, text := range said(reflect.ValueOf(is)) {
				if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
					t.Fatalf("%.100q", text)
				}
			}
			if again := report.Bounded(is); again != is {
				t.Error("it is not done yet")
			}
			if name == "short" && is != was {
				t.Error("nothing is to be done")
			}
		})
	}
	if got := report.Bounded(full(texts["control"])).Rollout.Checks[9].Message; got != "a[2J   bc d..." {
		t.Errorf("%q", got)
	}
}

func TestNoteProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.StringOf(rapid.SampledFrom([]rune("ab. \n\r\t\x1b<\"\u009b\u202e日\ufffd"))).Draw(t, "text"), rapid.IntRange(1, 200).Draw(t, "times"))
		note := report.Note(text)
		if len(note) > 1024 || strings.ContainsFunc(note, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			t.Fatalf("%d bytes: %q", len(note), note)
		}
		if again := report.Note(note); again != note {
			t.Fatalf("%q became %q", note, again)
		}
	})
}
