// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package ordinals_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/adapters/internal/ordinals"
)

func TestPositions(t *testing.T) {
	for _, tc := range []struct {
		name     string
		first    int32
		reserved [][2]int32
		want     string // names of the pods, of web-0 to web-9
	}{
		{"none is reserved", 0, nil, "0 1 2 3 4 5 6 7 8 9"},
		{"another first", 3, nil, "-3 -2 -1 0 1 2 3 4 5 6"},
		{"one is reserved", 0, [][2]int32{{1, 1}}, "0 -2 1 2 3 4 5 6 7 8"},
		{"the first is", 0, [][2]int32{{0, 0}}, "-1 0 1 2 3 4 5 6 7 8"},
		{"several, twice, in no order", 0, [][2]int32{{5, 6}, {1, 1}, {4, 6}}, "0 -2 1 2 -5 -6 -7 3 4 5"},
		{"below and around another first", 3, [][2]int32{{1, 3}, {5, 5}}, "-3 -2 -1 -4 0 -6 1 2 3 4"},
		{"an empty range", 0, [][2]int32{{5, 4}}, "0 1 2 3 4 5 6 7 8 9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := &ordinals.Set{ObjectMeta: metav1.ObjectMeta{Name: "web"}, First: tc.first, Reserved: tc.reserved}
			got := ""
			for ordinal := range 10 {
				name := fmt.Sprint("web-", ordinal)
				position, ok := set.Position(name)
				if !ok {
					t.Errorf("%s is none", name)
				}
				got += fmt.Sprint(position, " ")
				if position >= 0 && set.PodName(position) != name {
					t.Errorf("the replica at %d is called %s, want %s", position, set.PodName(position), name)
				}
			}
			if got != tc.want+" " {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
	set := &ordinals.Set{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	for _, name := range []string{"web", "web-", "web-01", "web--1", "web-a", "other-1", "web-2147483648"} {
		if _, ok := set.Position(name); ok {
			t.Errorf("%s is one", name)
		}
	}
}
