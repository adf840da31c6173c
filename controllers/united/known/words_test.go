// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package known_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWords walks the uses of the predicates on replicas: what is broken, failed on its template, on its template, updated or
// released is asked for in one place, from which controller and plugin have it, so that they cannot disagree. A use that is added
// belongs into known.Facts.State, or is a question of its own, with a reason here.
func TestWords(t *testing.T) {
	const here = "controllers/united/known/replica.go"
	want := map[string][]string{
		"Broken":       {here},
		"UpdateFailed": {here},
		"Failed": {
			"cmd/kubectl-united/foresee/future.go",    // which replicas of a plan never come up
			"cmd/kubectl-united/view/why_replicas.go", // why, and from when on
		},
		"Available": {
			"cmd/kubectl-united/foresee/controllers.go", // the model of the child's controller
			"cmd/kubectl-united/foresee/future.go",      // the played time
			"cmd/kubectl-united/view/why_replicas.go",   // what to read of the cluster, before there is a plan
			"controllers/subset/forgotten.go",           // replicas that are taken back
			"controllers/united/allocation/reserve.go",  // replicas are dealt before anything else is known
			"controllers/united/coordination/delete_replicas.go",
			here,
			"controllers/united/planner/turns.go", // by the minReadySeconds that come with the write
			"controllers/united/world/world.go",
		},
	}
	have := map[string][]string{}
	root := filepath.Join("..", "..", "..")
	for _, dir := range []string{"cmd", "controllers"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			name, seen := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator))), map[string]bool{}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				// Methods of others that have such a name have another number of arguments.
				arguments := map[string]int{"Broken": 2, "UpdateFailed": 2, "Failed": 1, "Available": 2}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if n, is := 0, false; ok {
					if n, is = arguments[method.Sel.Name]; is && n == len(call.Args) && !seen[method.Sel.Name] {
						seen[method.Sel.Name] = true
						have[method.Sel.Name] = append(have[method.Sel.Name], name)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("-want +have\n%s", diff)
	}
}
