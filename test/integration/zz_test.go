package integration

import (
	"testing"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
	"encoding/json"
	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	. "github.com/onsi/gomega"
)

func TestZZ(t *testing.T) {
	n := map[string]int{}
	ex := map[string]string{}
	rapid.Check(t, func(rt *rapid.T) {
		object := with(t, "anything")
		if rapid.Bool().Draw(rt, "only the patch") {
			set(anObject().Draw(rt, "the patch"), inPatch()...)(object.Object)
		} else {
			set(anObject().Draw(rt, "template"), inTemplate()...)(object.Object)
			if rapid.Bool().Draw(rt,"w") { put(`{app: web}`, templateLabels()...) 
			  func(){ defer func(){recover()}(); put(`{app: web}`, templateLabels()...)(object.Object)}() }
		}
		_, err := deployments().Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun})
		ud := decode(NewWithT(rt), object)
		var tmpl, patch map[string]any
		json.Unmarshal(ud.Spec.Template.StatefulSetTemplate.Raw, &tmpl)
		json.Unmarshal(ud.Spec.Topology.Subsets[1].Patch.Raw, &patch)
		a := statefulset.New()
		var errs []string
		if e := adapters.CheckTemplate(a, tmpl, field.NewPath("t")); e != nil { errs = append(errs, e.Error()) }
		if e := adapters.CheckPatch(a, patch, field.NewPath("p")); e != nil { errs = append(errs, e.Error()) }
		for _, e := range a.Validate(tmpl, ud.Spec.Selector, field.NewPath("t")) { errs = append(errs, e.Error()) }
		k := fmt.Sprintf("policy ok=%v controller ok=%v", err == nil, len(errs) == 0)
		if (err==nil) != (len(errs)==0) {
			m:=""; if err!=nil {m=err.Error(); m=m[strings.Index(m,"request: ")+9:]}else {m=errs[0]}
			k += " "+m
			if i:=strings.Index(m,"Invalid value: "); i>0 && err==nil {k=k[:len(k)-len(m)]+m[:i]}
			ex[k] = fmt.Sprint(errs, string(ud.Spec.Template.StatefulSetTemplate.Raw), string(ud.Spec.Topology.Subsets[1].Patch.Raw))
		}
		n[k]++
	})
	for k, v := range n { t.Log(v, k, ex[k]) }
}
