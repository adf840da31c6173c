// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// story returns the pictures of a demo without errors.
func story(steps []step) []*picture {
	var pictures []*picture
	for i := range steps {
		s := &steps[i]
		p := &picture{parent: &v1alpha1.UnitedDeployment{}, templates: map[string]string{}, pods: map[string]pod{}}
		for _, r := range s.subsets {
			p.templates[name+"-"+r.name] = s.template
			p.parent.Status.Subsets = append(p.parent.Status.Subsets, v1alpha1.SubsetStatus{
				Name: r.name, Partition: r.partition, Phase: r.phase,
				ReplicaCounts: v1alpha1.ReplicaCounts{Replicas: r.replicas, UpdatedReplicas: r.updated, ReadyReplicas: r.ready},
			})
		}
		for _, name := range allPods() {
			zone := name[len("web-"):strings.LastIndex(name, "-")]
			image := oldImage
			if slices.Contains(s.updated, name) {
				image = newImage
			}
			p.pods[name] = pod{uid: types.UID(name + image), image: image, node: zone + "-1", zone: zone, subset: zone, ready: true}
		}
		pictures = append(pictures, p)
	}
	return pictures
}

func TestCheckFindsNothingWrongInAGoodStory(t *testing.T) {
	steps := script("web.yaml")
	var before *picture
	for i, after := range story(steps) {
		findings, wrong := check(&steps[i], before, after)
		if len(findings) != 4 || len(wrong) > 0 {
			t.Errorf("step %d: %d findings; wrong: %v", i+1, len(findings), wrong)
		}
		before = after
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	const staged, zoneA, halfB = 1, 2, 3
	change := func(name string, change func(*pod)) func(*picture) {
		return func(p *picture) {
			changed := p.pods[name]
			change(&changed)
			p.pods[name] = changed
		}
	}
	for _, c := range []struct {
		title string
		step  int
		spoil func(*picture)
		want  string
	}{
		{"a held pod is replaced", staged, change("web-zone-c-0", func(p *pod) { p.uid = "other" }), "pod web-zone-c-0 was replaced"},
		{"a held pod is updated", staged, change("web-zone-c-0", func(p *pod) { p.image = newImage }), "pod web-zone-c-0 has image"},
		{"the image is not staged", staged, func(p *picture) { p.templates["web-zone-b"] = oldImage }, "StatefulSet web-zone-b"},
		{"a released pod stays", zoneA, change("web-zone-a-0", func(p *pod) { p.uid, p.image = "web-zone-a-0"+types.UID(oldImage), oldImage }),
			"pod web-zone-a-0 was released and is not updated"},
		{"a finished zone moves again", halfB, change("web-zone-a-0", func(p *pod) { p.uid = "other" }), "pod web-zone-a-0 was replaced"},
		{"a pod is in another zone", halfB, change("web-zone-b-2", func(p *pod) { p.zone = "zone-c" }), "pod web-zone-b-2 of zone-b"},
		{"a pod is not ready", halfB, change("web-zone-b-2", func(p *pod) { p.ready = false }), "pod web-zone-b-2 is not ready"},
		{"a pod is missing", halfB, func(p *picture) { delete(p.pods, "web-zone-b-2") }, "pod web-zone-b-2 is missing"},
		{"a pod too many", halfB, func(p *picture) { p.pods["web-zone-b-3"] = pod{} }, "pod web-zone-b-3 should not be there"},
		{"a phase is wrong", halfB, func(p *picture) { p.parent.Status.Subsets[2].Phase = v1alpha1.PhaseUpdating }, "status of zone-c"},
		{"a count is wrong", halfB, func(p *picture) { p.parent.Status.Subsets[1].UpdatedReplicas = 3 }, "status of zone-b"},
		{"a subset is not reported", halfB, func(p *picture) { p.parent.Status.Subsets = p.parent.Status.Subsets[:2] }, "2 subsets, not 3"},
	} {
		t.Run(c.title, func(t *testing.T) {
			steps := script("web.yaml")
			pictures := story(steps)
			after := pictures[c.step]
			after.pods = maps.Clone(after.pods)
			c.spoil(after)
			_, wrong := check(&steps[c.step], pictures[c.step-1], after)
			if err := errors.Join(wrong...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q among it", err, c.want)
			}
		})
	}
}

func TestShell(t *testing.T) {
	got := shell([]string{"patch", "united", "web", "--type=merge", "-p", `{"a":"it's"}`})
	if want := `patch united web --type=merge -p '{"a":"it'\''s"}'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := shell([]string{"apply", "-f", "config/samples/web.yaml"}); got != "apply -f config/samples/web.yaml" {
		t.Error(got)
	}
}
