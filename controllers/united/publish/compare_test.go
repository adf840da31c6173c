// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package publish_test

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/publish"
)

// TestSame changes every field of a status, including fields that Compare may have forgotten: each must
// be a difference.
func TestSame(t *testing.T) {
	full := func() *v1alpha1.UnitedDeploymentStatus {
		status := &v1alpha1.UnitedDeploymentStatus{}
		fill(reflect.ValueOf(status).Elem())
		return status
	}
	if a, b := full(), full(); publish.Same != publish.Compare(a, b) || publish.Same != publish.Compare(a, a.DeepCopy()) {
		t.Error("a copy differs")
	}
	if publish.Same != publish.Compare(&v1alpha1.UnitedDeploymentStatus{}, &v1alpha1.UnitedDeploymentStatus{
		Subsets: []v1alpha1.SubsetStatus{}, Conditions: []metav1.Condition{},
	}) {
		t.Error("an empty list differs from none")
	}
	count := len(leaves(reflect.ValueOf(full()).Elem()))
	if count < 60 {
		t.Fatal("too few fields:", count)
	}
	for i := range count {
		changed := full()
		leaf := leaves(reflect.ValueOf(changed).Elem())[i]
		leaf.change()
		if publish.Same == publish.Compare(full(), changed) || publish.Same == publish.Compare(changed, full()) {
			t.Errorf("%s makes no difference", leaf.name)
		}
	}
}

// leaf is a field that can be changed.
type leaf struct {
	name   string
	change func()
}

var timeType = reflect.TypeFor[metav1.Time]()

// fill gives every field a value, and every list and map one member.
func fill(v reflect.Value) {
	switch {
	case v.Type() == timeType:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case v.Kind() == reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": "b"}))
	case v.Kind() == reflect.String:
		v.SetString("a")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	default:
		v.SetInt(7)
	}
}

func leaves(v reflect.Value) []leaf { return named(v, v.Type().Name()) }

func named(v reflect.Value, name string) []leaf {
	set := func(to any) leaf {
		return leaf{name, func() { v.Set(reflect.ValueOf(to).Convert(v.Type())) }}
	}
	empty := leaf{name + " absent", func() { v.SetZero() }}
	switch {
	case v.Type() == timeType:
		return []leaf{set(metav1.NewTime(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)))}
	case v.Kind() == reflect.Struct:
		var list []leaf
		for i := range v.NumField() {
			list = append(list, named(v.Field(i), name+"."+v.Type().Field(i).Name)...)
		}
		return list
	case v.Kind() == reflect.Pointer:
		return append(named(v.Elem(), name), empty)
	case v.Kind() == reflect.Slice:
		return append(named(v.Index(0), name+"[0]"), empty)
	case v.Kind() == reflect.Map:
		return []leaf{empty, set(map[string]string{"a": "c"}), set(map[string]string{"c": "b"})}
	case v.Kind() == reflect.String:
		return []leaf{set("other")}
	case v.Kind() == reflect.Bool:
		return []leaf{set(false)}
	default:
		return []leaf{set(8)}
	}
}
