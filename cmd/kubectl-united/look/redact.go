// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

const revisionKind = "ControllerRevision"

// redacted returns objects of a parent without the values of environment variables, which it removes from them. What is named or
// sealed after its content gets the name and the checksum that it has without them, in all objects: the same is decided on them,
// and of the digests of values those are left that are of something older than the objects, such as the key of a check that was edited
// after its rollout, and the 32 bits by which child controllers label their pods. A checksum that was wrong stays wrong. asked is the revision that the spec asks for, which may not be stored.
func redacted(parent *v1alpha1.UnitedDeployment, asked *appsv1.ControllerRevision, objects []map[string]any) ([]unstructured.Unstructured, error) {
	hidden, n := hider{}, names{parent: parent.Name, of: map[string]string{}}
	data := map[string]any{}
	if err := utiljson.Unmarshal(asked.Data.Raw, &data); err != nil {
		return nil, err
	}
	named := map[string]any{"kind": revisionKind, "metadata": map[string]any{"name": asked.Name}, "data": data}
	for _, object := range append(slices.Clone(objects), named) {
		was := runtime.DeepCopyJSON(object)
		hidden.in(object)
		if object["kind"] != revisionKind {
			continue
		}
		if err := n.add(was, object); err != nil {
			return nil, err
		}
	}
	for _, object := range objects {
		hidden.said(object["status"])
	}
	raw, err := json.Marshal(objects)
	if err != nil {
		return nil, err
	}
	all := string(raw)
	for i := range parent.Status.Subsets {
		all += fmt.Sprint(parent.Status.Subsets[i].ChildRecord) // which is encoded
	}
	rename := n.renamer(all)
	out := make([]unstructured.Unstructured, len(objects))
	rekey := rename
	for i, object := range objects {
		if err := renamed(&out[i], object, rename); err != nil {
			return nil, err
		}
		if out[i].GetUID() == parent.UID {
			if rekey, err = rekeyed(&out[i], parent, rename); err != nil {
				return nil, err
			}
		}
	}
	for i := range out {
		if annotations := out[i].GetAnnotations(); annotations[v1alpha1.AnnotationLeft] != "" {
			annotations[v1alpha1.AnnotationLeft] = rekey(annotations[v1alpha1.AnnotationLeft])
			out[i].SetAnnotations(annotations)
		}
	}
	return out, nil
}

// hider has what stands in for values, so that it can be seen which are the same.
type hider map[string]string

// in removes values wherever containers are: in templates, patches, pods and revisions, also in texts that are JSON.
func (h hider) in(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = h.in(v[i])
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if list, ok := v[key].([]any); ok && key == "env" {
				h.values(list)
			}
			v[key] = h.in(v[key])
		}
	case string:
		var inside any
		if !strings.HasPrefix(v, "{") && !strings.HasPrefix(v, "[") || utiljson.Unmarshal([]byte(v), &inside) != nil {
			break
		}
		before, err := json.Marshal(inside)
		if after, errAfter := json.Marshal(h.in(inside)); err == nil && errAfter == nil && !bytes.Equal(before, after) {
			return string(after)
		}
	}
	return v
}

func (h hider) values(env []any) {
	for _, e := range env {
		if variable, ok := e.(map[string]any); ok && variable["value"] != nil && variable["value"] != "" {
			value := fmt.Sprintf("%T %v", variable["value"], variable["value"])
			if _, ok := h[value]; !ok {
				h[value] = "redacted-" + strconv.Itoa(len(h)+1)
			}
			variable["value"] = h[value]
		}
	}
}

// shortest is the length of the shortest value that is sought in messages: a shorter one is part of many words.
const shortest = 4

// said removes values from messages: the API server quotes what it refuses. Nothing is decided on a message.
func (h hider) said(v any) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			h.said(v[i])
		}
	case map[string]any:
		for key := range v {
			if message, ok := v[key].(string); ok && key == "message" {
				v[key] = h.hidden(message)
			}
			h.said(v[key])
		}
	}
}

// hidden removes values from a text, the longest first.
func (h hider) hidden(text string) string {
	for _, value := range slices.SortedFunc(maps.Keys(h), func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }) {
		if _, plain, _ := strings.Cut(value, " "); len(plain) >= shortest {
			text = strings.ReplaceAll(text, plain, h[value])
		}
	}
	return text
}

// names are the names that follow from contents, and what becomes of them.
type names struct {
	parent string
	of     map[string]string
	// versions are the values of the label united.dev/version.
	versions []string
}

// add adds the name of a ControllerRevision, if it is one of the parent and genuine.
func (n *names) add(was, is map[string]any) error {
	raw, err := json.Marshal(was["data"])
	if err != nil {
		return err
	}
	before, after := revision.Content{}, revision.Content{}
	if convert(was["data"], &before) != nil || convert(is["data"], &after) != nil {
		return nil // it is not ours
	}
	if v := before.VersionLabel; v != "" && v == revision.TemplateHash(before.Template) {
		after.VersionLabel = revision.TemplateHash(after.Template)
		n.versions = append(n.versions, v, after.VersionLabel)
	}
	cr := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: (&unstructured.Unstructured{Object: was}).GetName()}, Data: runtime.RawExtension{Raw: raw}}
	if name := revision.Renamed(cr, n.parent, after); name != "" {
		n.of[cr.Name] = name
	}
	return nil
}

// renamer returns what renames in a text, as people see the names, too. A name in all that is saved of which there is no content
// becomes another one, which has none either.
func (n *names) renamer(all string) func(string) string {
	digest := regexp.MustCompile(`\b` + regexp.QuoteMeta(n.parent) + `-(?:[-.a-z0-9]*-)?[0-9a-hjkmnp-tv-z]{` + strconv.Itoa(known.DigestLength) + `}\b`)
	for _, name := range digest.FindAllString(all, -1) {
		if _, ok := n.of[name]; !ok {
			n.of[name] = name[:len(name)-known.DigestLength] + known.Digest([]byte(strconv.Itoa(len(n.of))))
		}
	}
	var whole, short []string
	for _, was := range slices.Sorted(maps.Keys(n.of)) {
		whole = append(whole, was, n.of[was])
		short = append(short, known.Short(was), known.Short(n.of[was]))
	}
	return strings.NewReplacer(slices.Concat(whole, short, n.versions)...).Replace
}

// renamed sets in u an object with other names. The checksum of its record is true if it was.
func renamed(u *unstructured.Unstructured, object map[string]any, rename func(string) string) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if err := utiljson.Unmarshal([]byte(rename(string(raw))), &u.Object); err != nil {
		return err
	}
	was, annotations := unstructured.Unstructured{Object: object}, u.GetAnnotations()
	if adapters.VerifyRecord(was.GetNamespace(), was.GetName(), was.GetAnnotations()) == adapters.Whole {
		annotations[v1alpha1.AnnotationRecordChecksum] = adapters.RecordChecksum(u.GetNamespace(), u.GetName(), annotations)
	}
	if annotations[v1alpha1.AnnotationFingerprint] != "" {
		annotations[v1alpha1.AnnotationFingerprint] = "redacted" // nothing is decided on it
	}
	u.SetAnnotations(annotations)
	return nil
}

// rekeyed gives a parent the hashes that follow from its names, and returns what replaces them.
func rekeyed(u *unstructured.Unstructured, was *v1alpha1.UnitedDeployment, rename func(string) string) (func(string) string, error) {
	is := &v1alpha1.UnitedDeployment{}
	if err := convert(u.Object, is); err != nil {
		return nil, err
	}
	var pairs []string
	keys := coordination.Keys(is)
	for i, key := range coordination.Keys(was) {
		if key != "" {
			pairs = append(pairs, key, keys[i])
		}
	}
	rekey := strings.NewReplacer(pairs...).Replace
	for i := range is.Status.Subsets {
		if record := is.Status.Subsets[i].ChildRecord; record != nil {
			subset.Reworded(record, rename)
		}
	}
	if approved := is.Annotations[v1alpha1.AnnotationApproved]; approved != "" {
		is.Annotations[v1alpha1.AnnotationApproved] = rekey(approved)
	}
	if r := is.Status.Rollout; r != nil {
		r.Spent, r.Retried, r.ApprovalKey = rekey(r.Spent), rekey(r.Retried), rekey(r.ApprovalKey)
		for i := range r.Checks {
			r.Checks[i].Key = rekey(r.Checks[i].Key)
		}
	}
	return rekey, convert(is, &u.Object)
}

func convert(from, into any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(raw, into)
}
