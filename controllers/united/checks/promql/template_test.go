// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package promql

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFill(t *testing.T) {
	values := &Values{
		Namespace: "shop", Name: "web", Pods: []string{"web-b-1", "web-a-0", "web-b-1"}, Subsets: []string{"zone.a"}, Versions: []string{"5f", "7c"},
	}
	for query, want := range map[string]string{
		`up`: `up`,
		`sum(rate(errors{pod=~"${pods}"}[2m])) / sum(rate(all{pod=~"${pods}"}[2m]))`: `sum(rate(errors{pod=~"(?:web-a-0|web-b-1)"}[2m])) / sum(rate(all{pod=~"(?:web-a-0|web-b-1)"}[2m]))`,
		`a{zone=~"${subset}"}`:  `a{zone=~"zone\\.a"}`,
		`a{zone=~'${subset}'}`:  `a{zone=~'zone\\.a'}`,
		"a{zone!~ `${subset}`}": "a{zone!~ `zone\\.a`}",
		`a{v=~"v(${version})", ns="${namespace}", n=~"${name}-.*"}`: `a{v=~"v((?:5f|7c))", ns="shop", n=~"web-.*"}`,
		`label_replace(a, "b", "${1}$2", "pod", "${pods}|(.*)\"'")`: `label_replace(a, "b", "${1}$2", "pod", "(?:web-a-0|web-b-1)|(.*)\"'")`,
		"a # ${pods}, \"isn't it\n + b{n='\"${name}'}":              "a # ${pods}, \"isn't it\n + b{n='\"web'}",
		`a # the end`:                         `a # the end`,
		`a == on(pod) b{pod=~"x\\\\${pods}"}`: `a == on(pod) b{pod=~"x\\\\(?:web-a-0|web-b-1)"}`,
		"a{b=\"$name ${} $ {name}\"}":         "a{b=\"$name ${} $ {name}\"}",
	} {
		template, err := Parse(query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		if got, err := template.Fill(values); err != nil || got != want {
			t.Errorf("%s:\n%s\n%v", query, got, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for query, want := range map[string]string{
		`sum(${pods})`:            `${pods} is not inside of a string: write it as in {pod=~"${pods}"}`,
		`"a" + ${namespace} + ""`: `${namespace} is not inside of a string: write it as in {pod=~"${pods}"}`,
		`a{pod=~"${pod}"}`:        `${pod} is not known: there are ${pods}, ${subset}, ${version}, ${namespace}, ${name}`,
		`a{pod="${pods}"}`:        `${pods} is a regular expression: use =~ or !~ instead of = or !=`,
		`a{zone != '${subset}'}`:  `${subset} is a regular expression: use =~ or !~ instead of = or !=`,
		`a{v="v-${version}"}`:     `${version} is a regular expression: use =~ or !~ instead of = or !=`,
		`a{pod=~"${pods}}`:        `a string begins with " and does not end`,
		"a{pod=~`\\${pods}`}":     `${pods} follows a backslash, which would change its value`,
		`a{pod=~"\\${pods}"}`:     `${pods} follows a backslash, which would change its value`,
	} {
		if _, err := Parse(query); err == nil || err.Error() != want {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// TestTooLong: a query that grows beyond the limit is refused before it is sent.
func TestTooLong(t *testing.T) {
	template, err := Parse(`a{pod=~"${pods}"} / b{pod=~"${pods}"}`)
	if err != nil {
		t.Fatal(err)
	}
	v := &Values{}
	for i := range 6000 {
		v.Pods = append(v.Pods, fmt.Sprintf("%s-%d", strings.Repeat("w", 52), i))
	}
	if _, err := template.Fill(v); err == nil || err.Error() != "the query for 6000 replicas is longer than 512 KiB: use ${subset} instead of ${pods}" {
		t.Error(err)
	}
	v.Pods = v.Pods[:3000]
	if got, err := template.Fill(v); err != nil || len(got) < 2*3000*52 {
		t.Error(len(got), err)
	}
}

// TestNothingBreaksOut: whatever a value is, the string that it stands in remains one string, whose content is the value, and
// as a regular expression it matches the value and nothing else.
func TestNothingBreaksOut(t *testing.T) {
	text := rapid.StringMatching(`[a-z"'\\\n(){}|.*$\[\]]{1,8}`)
	rapid.Check(t, func(t *rapid.T) {
		v := &Values{Pods: rapid.SliceOfN(text, 1, 3).Draw(t, "pods"), Name: text.Draw(t, "name")}
		for _, quote := range []string{`"`, `'`} {
			for operator, literal := range map[string]string{"=~": v.Pods[0], "=": v.Name} {
				placeholder := map[string]string{"=~": "${pods}", "=": "${name}"}[operator]
				template, err := Parse("a{b" + operator + quote + placeholder + quote + "}")
				if err != nil {
					t.Fatal(err)
				}
				got, err := template.Fill(v)
				if err != nil {
					t.Fatal(err)
				}
				got = got[len("a{b"+operator) : len(got)-1]
				if lengthOf(got) != len(got) {
					t.Fatalf("%s goes on", got)
				}
				if quote == `'` { // Go knows only "
					got = `"` + strings.ReplaceAll(strings.ReplaceAll(got[1:len(got)-1], `\'`, `'`), `"`, `\"`) + `"`
				}
				content, err := strconv.Unquote(got)
				if err != nil {
					t.Fatalf("%s: %v", got, err)
				}
				if operator == "=" && content != literal {
					t.Fatalf("%q for %q", content, literal)
				}
				if operator == "=~" {
					e := regexp.MustCompile("^(?s:" + content + ")$")
					if !e.MatchString(literal) || e.MatchString(literal+"x") || e.MatchString("x"+literal) {
						t.Fatalf("%q for %q", content, v.Pods)
					}
				}
			}
		}
	})
	template, err := Parse("a{b=`${name}`}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := template.Fill(&Values{Name: "a`b"}); err == nil || !strings.Contains(err.Error(), "cannot stand in `") {
		t.Error(err)
	}
}

func TestUses(t *testing.T) {
	template, err := Parse(`a{n="${name}"} # ${pods}`)
	if err != nil || !template.Uses(Name) || template.Uses(Pods) || template.Compares() {
		t.Error(err, template)
	}
	if template, err = Parse(`a{zone=~"${subset}"}`); err != nil || !template.Compares() {
		t.Error(err, template)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a{pod=~\"${pods}\"} # '\n`${name}`")
	f.Fuzz(func(t *testing.T, query string) {
		template, err := Parse(query)
		if err != nil {
			return
		}
		got, err := template.Fill(&Values{Namespace: "n", Name: "n", Pods: []string{"p"}, Subsets: []string{"s"}, Versions: []string{"v"}})
		if err != nil && len(query) < MaxQuery {
			t.Error(err)
		}
		if !strings.Contains(query, "${") && got != query && err == nil {
			t.Errorf("%q became %q", query, got)
		}
	})
}
