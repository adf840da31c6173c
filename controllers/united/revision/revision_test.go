// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package revision_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/unitedworkloads/united/adapters/render"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

type (
	object   = map[string]any
	overlays = map[string]revision.Overlay
)

func parent() *v1alpha1.UnitedDeployment {
	return &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1"}}
}

func ownerOf(p *v1alpha1.UnitedDeployment) metav1.OwnerReference {
	return *metav1.NewControllerRef(p, v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
}

// template is a pod part with one image.
func template(image string) object {
	return object{"spec": object{"containers": []any{object{"name": "web", "image": image}}}}
}

func patched(image string) revision.Overlay { return revision.Overlay{Patch: template(image)} }

func tolerating(key string) revision.Overlay {
	return revision.Overlay{Tolerations: []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}}
}

func content(image string, subsets overlays) revision.Content {
	return revision.Content{Template: template(image), Subsets: subsets}
}

func keep(t testing.TB, c revision.Content, number int64) *revision.Revision {
	t.Helper()
	return parse(t, revision.New(parent(), ownerOf(parent()), c, number, 0))
}

func parse(t testing.TB, cr *appsv1.ControllerRevision) *revision.Revision {
	t.Helper()
	r, err := revision.Parse(cr)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// amend returns the revision with the annotation that knows the existing subsets.
func amend(t testing.TB, r *revision.Revision, living overlays) *revision.Revision {
	t.Helper()
	annotation, changed := r.Amend(living)
	if !changed {
		return r
	}
	cr := r.Object.DeepCopy()
	metav1.SetMetaDataAnnotation(&cr.ObjectMeta, v1alpha1.AnnotationSubsets, annotation)
	return parse(t, cr)
}

func TestNew(t *testing.T) {
	cr := revision.New(parent(), ownerOf(parent()), content("a:1", nil), 7, 0)
	if cr.Namespace != "shop" || cr.Revision != 7 || !metav1.IsControlledBy(cr, parent()) {
		t.Errorf("%+v", cr)
	}
	if diff := cmp.Diff(map[string]string{v1alpha1.LabelName: "web"}, cr.Labels); diff != "" {
		t.Error("a revision of a parent has no label of a subset:", diff)
	}
	if !strings.HasPrefix(cr.Name, "web-") || len(validation.IsDNS1123Subdomain(cr.Name)) > 0 {
		t.Error(cr.Name)
	}
}

func TestNameIsThatOfTheContent(t *testing.T) {
	name := func(c revision.Content, number int64, collision int) string {
		return revision.New(parent(), ownerOf(parent()), c, number, collision).Name
	}
	first := name(content("a:1", overlays{"x": patched("b:1")}), 1, 0)
	if again := name(content("a:1", overlays{"x": patched("b:1")}), 2, 0); again != first {
		t.Error("the same content has two names:", first, again)
	}
	// Revisions in a cluster outlive a controller, so a new version of the controller must compute
	// the same names.
	if got := name(content("a:1", nil), 1, 0); got != "web-2wjmk39gf5n47rc3h7q9f2be9x" {
		t.Error("the name of a revision changed:", got)
	}
	for what, other := range map[string]string{
		"collision": name(content("a:1", overlays{"x": patched("b:1")}), 1, 1),
		"template":  name(content("a:2", overlays{"x": patched("b:1")}), 1, 0),
		"patch":     name(content("a:1", overlays{"x": patched("b:2")}), 1, 0),
		"subset":    name(content("a:1", overlays{"y": patched("b:1")}), 1, 0),
	} {
		if other == first {
			t.Error("another", what, "has the same name")
		}
	}
}

// TestNamesCannotBeForged: these two contents had the same name when a name had 40 bits, so that a release, promotion or undo that
// named the one let out the other. They were found in seconds.
func TestNamesCannotBeForged(t *testing.T) {
	name := func(image string) string {
		return revision.New(parent(), ownerOf(parent()), content(image, nil), 1, 0).Name
	}
	if good, evil := name("a:245980"), name("a:926890"); good == evil || len(good) != len("web-")+26 {
		t.Error(good, evil)
	}
}

// TestAStoredRevisionKeepsItsName: one that an earlier version has named is found by its content, is taken back if it has lost its
// owner, and is not taken for one that somebody has replaced.
func TestAStoredRevisionKeepsItsName(t *testing.T) {
	stored := revision.New(parent(), ownerOf(parent()), content("a:1", nil), 1, 0)
	stored.Name = "web-5c698fdz74" // as version 0.1 named it
	if found := revision.Find([]*revision.Revision{parse(t, stored)}, content("a:1", nil), ""); found == nil || found.Name != stored.Name {
		t.Error(found)
	}
	stored.OwnerReferences = nil
	if !revision.Genuine(stored, "web") || !revision.Stray(stored, parent()) {
		t.Error("it counts as replaced")
	}
	stored.Data = revision.New(parent(), ownerOf(parent()), content("a:2", nil), 1, 0).Data
	if revision.Genuine(stored, "web") {
		t.Error("another content does not have that name")
	}
}

func TestParseReadsWhatNewWrites(t *testing.T) {
	c := revision.Content{
		Template: object{
			"spec": object{
				"priority": int64(9007199254740993), "ratio": 0.5, "empty": object{}, "list": []any{int64(1), "a", nil, true},
			},
		},
		Subsets: overlays{
			"a": {Patch: object{"spec": object{"x": nil}}, Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}},
			"b": {},
		},
	}
	r := keep(t, c, 3)
	if r.Number != 3 || r.Object.Name != r.Name {
		t.Error(r.Name, r.Number)
	}
	if diff := cmp.Diff(c.Template, r.Template()); diff != "" {
		t.Error("want -, have +\n", diff)
	}
	for name, want := range c.Subsets {
		got, known := r.Overlay(name)
		if diff := cmp.Diff(want, got); diff != "" || !known {
			t.Error(name, known, "want -, have +\n", diff)
		}
	}
	if _, known := r.Overlay("c"); known {
		t.Error("a subset is known that the content does not have")
	}
	// Children are built from the result: the API machinery deep-copies it, and panics on an int.
	runtime.DeepCopyJSON(r.Template())
}

func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ data, says string }{
		"no data":            {"", "data"},
		"no object":          {"5", "data"},
		"no template":        {"{}", "template is missing"},
		"a null template":    {`{"template": null}`, "template is missing"},
		"a template of text": {`{"template": "x"}`, "data"},
		"a list of subsets":  {`{"template": {}, "subsets": []}`, "data"},
	} {
		t.Run(name, func(t *testing.T) {
			cr := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}, Data: runtime.RawExtension{Raw: []byte(tc.data)}}
			_, err := revision.Parse(cr)
			if err == nil || !strings.Contains(err.Error(), "web-1") || !strings.Contains(err.Error(), tc.says) {
				t.Error(err)
			}
		})
	}
}

// Anybody may change the annotation. If it cannot be parsed, what it said about subsets that were
// added later is lost, and it is written again; the data are not affected.
func TestParsePutsUpWithABrokenAnnotation(t *testing.T) {
	for name, annotation := range map[string]string{
		"no JSON": "{", "a list": "[]", "a patch of text": `{"a": {"patch": "x"}}`, "words": "garbage",
	} {
		t.Run(name, func(t *testing.T) {
			cr := revision.New(&v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.OwnerReference{}, revision.Content{
				Template: map[string]any{"a": "b"}, Subsets: map[string]revision.Overlay{"old": {Patch: map[string]any{"c": "d"}}},
			}, 1, 0)
			cr.Annotations = map[string]string{v1alpha1.AnnotationSubsets: annotation}
			r, err := revision.Parse(cr)
			if err != nil {
				t.Fatal(err)
			}
			if _, known := r.Overlay("old"); !known {
				t.Error("what the data say is lost")
			}
			living := map[string]revision.Overlay{"old": {}, "new": {Patch: map[string]any{"e": "f"}}}
			text, changed := r.Amend(living)
			if !changed {
				t.Fatal("it stays broken")
			}
			cr.Annotations[v1alpha1.AnnotationSubsets] = text
			if r, err = revision.Parse(cr); err != nil {
				t.Fatal(err)
			}
			if overlay, known := r.Overlay("new"); !known || overlay.Patch["e"] != "f" {
				t.Error(overlay, known)
			}
			if _, changed := r.Amend(living); changed {
				t.Error("it is written again and again")
			}
		})
	}
}

func TestMatches(t *testing.T) {
	with := func(member any) revision.Content { return revision.Content{Template: object{"spec": member}} }
	fromText := func(text string) revision.Content {
		cr := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(`{"template": {"spec": ` + text + `}}`)}}
		return revision.Content{Template: parse(t, cr).Template()}
	}
	for _, tc := range []struct {
		name       string
		kept, asks revision.Content
		want       bool
	}{
		{"the same", content("a:1", nil), content("a:1", nil), true},
		{"another template", content("a:1", nil), content("a:2", nil), false},
		{"the same patch", content("a:1", overlays{"x": patched("b:1")}), content("a:1", overlays{"x": patched("b:1")}), true},
		{"another patch", content("a:1", overlays{"x": patched("b:1")}), content("a:1", overlays{"x": patched("b:2")}), false},
		{"a patch is gone", content("a:1", overlays{"x": patched("b:1")}), content("a:1", overlays{"x": {}}), false},
		{"a patch is new", content("a:1", overlays{"x": {}}), content("a:1", overlays{"x": patched("b:1")}), false},
		{"the same toleration", content("a:1", overlays{"x": tolerating("k")}), content("a:1", overlays{"x": tolerating("k")}), true},
		{"another toleration", content("a:1", overlays{"x": tolerating("k")}), content("a:1", overlays{"x": tolerating("l")}), false},
		{"a toleration is new", content("a:1", overlays{"x": {}}), content("a:1", overlays{"x": tolerating("k")}), false},
		{"a subset is not known", content("a:1", nil), content("a:1", overlays{"x": patched("b:1")}), true},
		{"a subset is gone", content("a:1", overlays{"x": patched("b:1")}), content("a:1", nil), true},
		{"two subsets changed places", content("a:1", overlays{"x": patched("b:1"), "y": patched("b:2")}), content("a:1", overlays{"y": patched("b:1"), "x": patched("b:2")}), false},

		{"an empty patch is none", content("a:1", overlays{"x": {Patch: object{}}}), content("a:1", overlays{"x": {}}), true},
		{"no tolerations are none", content("a:1", overlays{"x": {Tolerations: []corev1.Toleration{}}}), content("a:1", overlays{"x": {}}), true},
		{"an empty member is a member", with(object{"a": object{}}), with(object{}), false},
		{"a null is no member", with(object{"a": nil}), with(object{}), false},
		{"the order of keys", fromText(`{"a": 1, "b": 2}`), fromText(`{"b": 2, "a": 1}`), true},
		{"the order of a list", fromText(`[1, 2]`), fromText(`[2, 1]`), false},
		{"1 and 1.0", fromText(`1`), fromText(`1.0`), true},
		{"1e3 and 1000", fromText(`1e3`), fromText(`1000`), true},
		{"1 and \"1\"", fromText(`1`), fromText(`"1"`), false},
		{"big integers", fromText(`9007199254740993`), fromText(`9007199254740992`), false},
		{"integers of any type", with(int64(5)), with(5), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := keep(t, tc.kept, 1).Matches(tc.asks); got != tc.want {
				t.Error(got)
			}
		})
	}
}

func TestFind(t *testing.T) {
	one := keep(t, content("a:1", overlays{"x": patched("b:1")}), 1)
	two := keep(t, content("a:2", overlays{"x": {}}), 2)
	three := keep(t, content("a:1", overlays{"x": patched("b:3")}), 3)
	all := []*revision.Revision{two, three, one}
	anyX := content("a:1", overlays{"y": {}})
	for _, tc := range []struct {
		name      string
		asks      revision.Content
		preferred string
		want      *revision.Revision
	}{
		{"the one that matches", content("a:2", overlays{"x": {}}), "", two},
		{"the older one, when it alone matches", content("a:1", overlays{"x": patched("b:1")}), three.Name, one},
		{"none", content("a:3", nil), "", nil},
		{"none, since a patch differs", content("a:1", overlays{"x": patched("b:2")}), "", nil},
		{"of two that know too little, the last used", anyX, "", three},
		{"of two that know too little, the preferred", anyX, one.Name, one},
		{"the preferred one does not match", anyX, two.Name, three},
		{"the preferred one is not there", anyX, "web-0", three},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 2 {
				if got := revision.Find(all, tc.asks, tc.preferred); got != tc.want {
					t.Error(got)
				}
				slices.Reverse(all)
			}
		})
	}
}

func TestAmend(t *testing.T) {
	r := keep(t, content("a:1", overlays{"x": patched("b:1")}), 1)
	if text, changed := r.Amend(overlays{"x": patched("b:2")}); changed {
		t.Error("a subset that is known is written again:", text)
	}

	r = amend(t, r, overlays{"x": patched("b:1"), "y": patched("c:1")})
	if got, known := r.Overlay("y"); !known || cmp.Diff(patched("c:1"), got) != "" {
		t.Error("a subset that came late is not known:", got, known)
	}
	if !r.Matches(content("a:1", overlays{"x": patched("b:1"), "y": patched("c:1")})) {
		t.Error("a subset that came late makes a revision")
	}
	if r.Matches(content("a:1", overlays{"x": patched("b:1"), "y": patched("c:2")})) {
		t.Error("a later change of the patch makes no revision")
	}
	if text, changed := r.Amend(overlays{"x": {}, "y": {}}); changed {
		t.Error("nothing changed, but", text)
	}

	r = amend(t, r, overlays{"y": patched("c:1")})
	if _, known := r.Overlay("x"); known {
		t.Error("a subset that is gone is still known")
	}
	again := content("a:1", overlays{"x": patched("b:9"), "y": patched("c:1")})
	if !r.Matches(again) {
		t.Error("a subset that came back with another patch makes a revision")
	}
	r = amend(t, r, again.Subsets)
	if got, known := r.Overlay("x"); !known || cmp.Diff(patched("b:9"), got) != "" {
		t.Error("a subset that came back is not known:", got, known)
	}

	r = amend(t, r, overlays{})
	for _, name := range []string{"x", "y"} {
		if _, known := r.Overlay(name); known {
			t.Error(name, "is still known")
		}
	}
	if text, changed := r.Amend(nil); changed {
		t.Error("nothing changed, but", text)
	}
}

func TestAmendKeepsAnEmptyOverlay(t *testing.T) {
	r := amend(t, keep(t, content("a:1", nil), 1), overlays{"x": {}})
	if r.Matches(content("a:1", overlays{"x": patched("b:1")})) {
		t.Error("a subset that had no patch is not told from one that is not known")
	}
}

func TestSamePods(t *testing.T) {
	one := keep(t, content("a:1", overlays{"x": patched("b:1"), "y": {}}), 1)
	two := keep(t, content("a:1", overlays{"x": patched("b:2"), "y": {}}), 2)
	three := keep(t, content("a:1", nil), 3)
	four := keep(t, content("a:4", nil), 4)
	for _, tc := range []struct {
		name   string
		a, b   *revision.Revision
		subset string
		today  revision.Overlay
		want   bool
	}{
		{"itself", one, one, "x", patched("b:9"), true},
		{"another patch", one, two, "x", patched("b:1"), false},
		{"the patch of another subset", one, two, "y", patched("b:1"), true},
		{"both do not know it", one, two, "z", patched("b:9"), true},
		{"one does not know it, and today is as then", one, three, "x", patched("b:1"), true},
		{"one does not know it, and today is not as then", one, three, "x", patched("b:2"), false},
		{"one does not know it, and there is none today", one, three, "x", revision.Overlay{}, false},
		{"another template", three, four, "z", revision.Overlay{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if revision.SamePods(tc.a, tc.b, tc.subset, tc.today) != tc.want || revision.SamePods(tc.b, tc.a, tc.subset, tc.today) != tc.want {
				t.Error("want", tc.want)
			}
		})
	}
	if diff := cmp.Diff(patched("b:9"), three.OverlayOr("x", patched("b:9"))); diff != "" {
		t.Error("there is no stand-in:", diff)
	}
	if diff := cmp.Diff(patched("b:1"), one.OverlayOr("x", patched("b:9"))); diff != "" {
		t.Error("the stand-in wins:", diff)
	}
}

func named(name string, number int64) *revision.Revision {
	return &revision.Revision{Name: name, Number: number}
}

func names(revisions []*revision.Revision) []string {
	list := []string{}
	for _, r := range revisions {
		list = append(list, r.Name)
	}
	return list
}

func TestSurplus(t *testing.T) {
	all := []*revision.Revision{named("c", 3), named("a", 1), named("d", 10), named("b", 2), named("b0", 2)}
	for _, tc := range []struct {
		name  string
		inUse []string
		limit int
		want  []string
	}{
		{"all fit", nil, 10, []string{}},
		{"just fit", nil, 5, []string{}},
		{"the oldest goes, by number and not as text", nil, 4, []string{"a"}},
		{"by name where numbers are equal", nil, 2, []string{"a", "b", "b0"}},
		{"none is kept", nil, 0, []string{"a", "b", "b0", "c", "d"}},
		{"a negative limit keeps none", nil, -1, []string{"a", "b", "b0", "c", "d"}},
		{"never what is in use", []string{"a", "c"}, 0, []string{"b", "b0", "d"}},
		{"what is in use does not count", []string{"a", "d"}, 2, []string{"b"}},
		{"all in use", []string{"a", "b", "b0", "c", "d"}, 0, []string{}},
		{"what is in use and gone", []string{"", "z"}, 5, []string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inUse := map[string]bool{}
			for _, name := range tc.inUse {
				inUse[name] = true
			}
			before := names(all)
			if diff := cmp.Diff(tc.want, names(revision.Surplus(all, inUse, tc.limit))); diff != "" {
				t.Error("want -, have +\n", diff)
			}
			if diff := cmp.Diff(before, names(all)); diff != "" {
				t.Error("the argument was changed:", diff)
			}
		})
	}
}

func TestNextNumber(t *testing.T) {
	for _, tc := range []struct {
		numbers []int64
		want    int64
	}{{nil, 1}, {[]int64{1}, 2}, {[]int64{7, 3}, 8}, {[]int64{0}, 1}} {
		var all []*revision.Revision
		for _, n := range tc.numbers {
			all = append(all, named("", n))
		}
		if got := revision.NextNumber(all); got != tc.want {
			t.Error(tc.numbers, got)
		}
	}
}

func TestByName(t *testing.T) {
	all := []*revision.Revision{named("a", 1), named("b", 2)}
	if got := revision.ByName(all, "b"); got != all[1] {
		t.Error(got)
	}
	if got := revision.ByName(all, "c"); got != nil {
		t.Error(got)
	}
}

// TestLastCurrent: the highest number recorded for this parent counts.
func TestLastCurrent(t *testing.T) {
	for name, tc := range map[string]struct {
		records []string
		want    string
		number  int64
	}{
		"none":                    {[]string{"", ""}, "", 0},
		"one":                     {[]string{"", revision.CurrentRecord("u-1", 0)}, "v2", 1},
		"the last":                {[]string{revision.CurrentRecord("u-1", 9), revision.CurrentRecord("u-1", 8)}, "v1", 10},
		"of a parent before it":   {[]string{revision.CurrentRecord("u-1", 0), revision.CurrentRecord("u-0", 4)}, "v1", 1},
		"what cannot be read":     {[]string{"u-1/1", "u-1/"}, "v1", 1},
		"no number":               {[]string{"u-1/1", "u-1/2/3"}, "v1", 1},
		"below none":              {[]string{"u-1/-3", "u-1/0"}, "", 0},
		"none can come after it":  {[]string{"u-1/1", "u-1/9223372036854775807"}, "v1", 1},
		"more than there is room": {[]string{"u-1/1", "u-1/99999999999999999999"}, "v1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var revisions []*revision.Revision
			for i, record := range tc.records {
				r := keep(t, content(fmt.Sprint("v", i+1), nil), int64(i+1))
				metav1.SetMetaDataAnnotation(&r.Object.ObjectMeta, v1alpha1.AnnotationCurrent, record)
				revisions = append(revisions, r)
			}
			last, number := revision.LastCurrent(revisions, "u-1")
			got := ""
			if last != nil {
				got = fmt.Sprint("v", last.Number)
			}
			if got != tc.want || number != tc.number {
				t.Errorf("%s %d, want %s %d", got, number, tc.want, tc.number)
			}
		})
	}
}

// TestSurplusBySize: only a few large revisions that are not in use are kept.
func TestSurplusBySize(t *testing.T) {
	large := strings.Repeat("x", revision.MaxHistoryBytes/4)
	var revisions []*revision.Revision
	for i := range 6 {
		revisions = append(revisions, keep(t, content(fmt.Sprint("v", i, large), nil), int64(i+1)))
	}
	inUse := map[string]bool{revisions[0].Name: true, revisions[4].Name: true}
	var numbers []int64
	for _, r := range revision.Surplus(revisions, inUse, 100) {
		numbers = append(numbers, r.Number)
	}
	if !slices.Equal(numbers, []int64{2}) { // 3, 4 and 6 together are just below the bound
		t.Error(numbers)
	}
}

// The version of a template is that of the template alone, whatever subsets change in it, and it is what it
// was when the template is.
func TestTemplateHash(t *testing.T) {
	// A golden value: with another one, an upgrade of United would replace every pod with the label.
	first := revision.TemplateHash(template("a:1"))
	if first != "x7x445xvzx" {
		t.Error("the version of a template changed:", first)
	}
	if len(validation.IsValidLabelValue(first)) > 0 {
		t.Error(first)
	}
	if other := revision.TemplateHash(template("a:2")); other == first {
		t.Error("another template has the same version:", other)
	}
	// As it was kept and read again.
	if again := revision.TemplateHash(keep(t, content("a:1", overlays{"x": patched("b:1")}), 1).Template()); again != first {
		t.Error("the same template has two versions:", first, again)
	}
}

// Groups are part of a revision, because they change pods: those of the members. Without them, a revision has the name
// that it had before there were groups.
func TestColocationIsPartOfTheRevision(t *testing.T) {
	without := content("a:1", overlays{"x": {}, "y": {}})
	grouped := func(key string, exclusive bool, start int32) revision.Content {
		c := without
		c.Colocation = &revision.Colocation{TopologyKey: key, Exclusive: exclusive, Members: map[string]revision.Member{"x": {Ratio: 2, Start: start}}}
		return c
	}
	off, on := keep(t, without, 1), keep(t, grouped("zone", false, 0), 2)
	if off.Name == on.Name || off.Colocation("x") != nil || on.Colocation("y") != nil {
		t.Error(off.Name, on.Name, off.Colocation("x"), on.Colocation("y"))
	}
	if got := on.Colocation("x"); got == nil || *got != (render.Colocation{TopologyKey: "zone", Ratio: 2}) {
		t.Errorf("%+v", got)
	}
	if strings.Contains(string(off.Object.Data.Raw), "colocation") || !revision.Genuine(on.Object, "web") {
		t.Errorf("%s", off.Object.Data.Raw)
	}
	all := []*revision.Revision{off, on}
	if revision.Find(all, without, "") != off || revision.Find(all, grouped("zone", false, 0), "") != on {
		t.Error("a revision is not found")
	}
	if revision.SamePods(off, on, "x", revision.Overlay{}) || !revision.SamePods(off, on, "y", revision.Overlay{}) {
		t.Error("only the pods of members change")
	}
	for _, other := range []revision.Content{grouped("host", false, 0), grouped("zone", true, 0), grouped("zone", false, 1)} {
		if revision.Find(all, other, "") != nil || revision.SamePods(on, keep(t, other, 3), "x", revision.Overlay{}) {
			t.Errorf("taken for the same: %+v", other.Colocation)
		}
	}
}

// The label of a colocation must never change by an upgrade of United, because it would restart all its pods.
func TestColocationID(t *testing.T) {
	id := func(key string, exclusive bool, ratio, start int32) string {
		return revision.ColocationID(&revision.Colocation{TopologyKey: key, Exclusive: exclusive, Members: map[string]revision.Member{"decode": {Ratio: 1}, "prefill": {Ratio: ratio, Start: start}}})
	}
	first := id("kubernetes.io/hostname", false, 2, 0)
	if first != "bcc875b792" {
		t.Error(first)
	}
	if id("kubernetes.io/hostname", false, 2, 5) != first {
		t.Error("the first ordinal is in it")
	}
	for _, other := range []string{id("zone", false, 2, 0), id("kubernetes.io/hostname", true, 2, 0), id("kubernetes.io/hostname", false, 3, 0)} {
		if other == first {
			t.Error("another colocation has the same value")
		}
	}
}

// To turn the label on or off makes another revision, of other pods; without it a revision is named
// as it was before there were labels.
func TestVersionLabelIsPartOfTheRevision(t *testing.T) {
	without := content("a:1", overlays{"x": patched("b:1")})
	with := without
	with.VersionLabel = "v"
	other := without
	other.VersionLabel = "w"
	off, on := keep(t, without, 1), keep(t, with, 2)
	if off.Name == on.Name || off.VersionLabel() != "" || on.VersionLabel() != "v" {
		t.Error(off.Name, on.Name, on.VersionLabel())
	}
	all := []*revision.Revision{off, on}
	if revision.Find(all, without, "") != off || revision.Find(all, with, "") != on || revision.Find(all, other, "") != nil {
		t.Error("a revision is taken for one with another label")
	}
	if revision.SamePods(off, on, "x", revision.Overlay{}) || !revision.SamePods(on, keep(t, with, 3), "x", revision.Overlay{}) {
		t.Error("SamePods")
	}
	if strings.Contains(string(off.Object.Data.Raw), "versionLabel") {
		t.Errorf("%s", off.Object.Data.Raw)
	}
	if !revision.Genuine(on.Object, "web") {
		t.Error("the name does not tell of the content")
	}
}
