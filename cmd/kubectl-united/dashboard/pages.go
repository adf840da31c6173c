// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// templates are read when the first page is asked for: the other commands must start fast.
var templates = sync.OnceValues(func() (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{
		"lines": func(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") },
		"utc":   func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
		"join":  strings.Join,
		"short": known.Short,
		"mark":  func(state string) string { return marks[state] },
		"words": func(state string) string {
			if state == view.Held {
				return "waits for you"
			}
			return state
		},
		"field": func(object *objectPage, action any) map[string]any {
			return map[string]any{"Page": object, "Action": action}
		},
	}).ParseFS(files, "templates/*.html")
})

// marks tell states apart without color.
var marks = map[string]string{
	view.OK: "✓", view.Held: "‖", view.Waiting: "…", view.Failed: "✕",
	view.Updated: "●", view.Updating: "◐", view.Protected: "■", view.Down: "▲", view.Broken: "✕", view.Missing: "○",
	view.Fault: "✕", view.Told: "‖", view.Passing: "…", view.Nothing: "✓",
}

// made makes a part of a page. An error is shown in its place.
func made(name string, value any) string {
	all, err := templates()
	if err != nil {
		return template.HTMLEscapeString(err.Error())
	}
	out := &bytes.Buffer{}
	if err := all.ExecuteTemplate(out, name, value); err != nil {
		return template.HTMLEscapeString(err.Error())
	}
	return out.String()
}

func show(w http.ResponseWriter, name string, value any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(made(name, value)))
}

// frame is a whole page around its live part.
type frame struct {
	Title, Base, Live string
	// Where is the context of the kubeconfig, or the host of the API server.
	Where string
	List  bool
	Body  template.HTML
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	s.frame(w, r, frame{Title: "United", Live: "live", List: true})
}

func (s *server) object(w http.ResponseWriter, r *http.Request) {
	key := keyOf(r)
	s.frame(w, r, frame{Title: key.Name + " · United", Live: "live/" + key.Namespace + "/" + key.Name})
}

// frame shows a page with its live part as it is now.
func (s *server) frame(w http.ResponseWriter, r *http.Request, f frame) {
	tab, leave := s.hub.join(keyOf(r))
	defer leave()
	select {
	case <-r.Context().Done():
		return
	case page := <-tab:
		f.Body = template.HTML(page) //nolint:gosec // it was made by a template
	}
	f.Base, f.Where = "/"+s.token+"/", s.where
	show(w, "frame", f)
}

// live makes the live part of a page.
func (s *server) live(ctx context.Context, key client.ObjectKey, remembered *seen) string {
	if key.Name == "" {
		return made("list", s.listPage(ctx))
	}
	return made("object", s.objectPage(ctx, key, remembered))
}

// listPage are all UnitedDeployments, the worst first.
type listPage struct {
	Base      string
	Namespace string
	Away      *outage
	Error     string
	All       []*view.Status
	Counts    map[string]int
}

func (s *server) listPage(ctx context.Context) *listPage {
	p := &listPage{Base: "/" + s.token + "/", Namespace: s.namespace, Away: s.outage(), Counts: map[string]int{}}
	list := &v1alpha1.UnitedDeploymentList{}
	if err := s.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		p.Error = unreadable(err)
		return p
	}
	for i := range list.Items {
		st := view.StatusOf(&list.Items[i], nil, "")
		p.All = append(p.All, st)
		p.Counts[st.State]++
	}
	slices.SortFunc(p.All, view.Worst)
	return p
}

// unreadable says why something cannot be read.
func unreadable(err error) string {
	if apierrors.IsForbidden(err) {
		return drive.Forbidden(err)
	}
	return drive.Explained(err).Error()
}

// objectPage is one UnitedDeployment.
type objectPage struct {
	*view.Status
	Base, At string
	Away     *outage
	Error    string
	UID      string
	Zones    []zone
	// Overview are the zones again, if there are too many for one look.
	Overview []zone
	Steps    []view.Step
	Checks   []view.Check
	Phase    string
	Manual   bool
	History  *view.History
	Label    func(string) string
	Events   []event
	// Unread and EventsUnread say why revisions and events are not shown.
	Unread       []string
	EventsUnread string
	Actions      []action
	// Forbidden says which right the user lacks to change it.
	Forbidden string
	Key       string
}

// event is what the manager told of it.
type event struct {
	At                 time.Time
	Type, Reason, Note string
	Count              int32
}

func (s *server) objectPage(ctx context.Context, key client.ObjectKey, remembered *seen) *objectPage {
	p := &objectPage{
		Base: "/" + s.token + "/", At: "/" + s.token + "/o/" + key.Namespace + "/" + key.Name, Away: s.outage(),
		Status: &view.Status{Namespace: key.Namespace, Name: key.Name},
	}
	parent, err := look.One(ctx, s.cluster, key.Namespace, key.Name)
	if err != nil {
		p.Error = unreadable(err)
		if apierrors.IsNotFound(err) {
			p.Error = "There is no UnitedDeployment " + key.Name + " in the namespace " + key.Namespace + "."
		}
		return p
	}
	user := s.user(remembered)
	in, unseen := user.World(ctx, parent)
	p.Status = view.StatusOf(parent, in, unseen)
	revisions, err := user.Revisions(ctx, parent)
	if err != nil {
		p.Unread = append(p.Unread, unreadable(err))
	}
	p.History = view.HistoryOf(parent, revisions, in, unseen)
	p.Label = labeler(p.History, p.Status)
	slices.Reverse(p.History.Revisions)
	p.Zones = zonesOf(p.Status, p.Label)
	if len(p.Zones) > many {
		p.Overview = p.Zones
	}
	if p.Rollout != nil {
		p.Checks = p.Rollout.Checks
	}
	p.Steps, p.UID, p.Manual = view.StepsOf(parent), string(parent.UID), p.Strategy == string(v1alpha1.ManualUpdateStrategy)
	if r := parent.Status.Rollout; r != nil {
		p.Key, p.Phase = r.ApprovalKey, string(r.Phase)
	}
	if p.Events, err = s.events(ctx, key); err != nil {
		p.EventsUnread = unreadable(err)
	}
	p.Forbidden = s.lacks(ctx, key)
	p.Actions = actionsOf(parent, in, revisions, p.Forbidden)
	return p
}

// lacks says which right the user lacks to change a UnitedDeployment; "" if none.
func (s *server) lacks(ctx context.Context, key client.ObjectKey) string {
	may, err := s.may(ctx, authorizationv1.ResourceAttributes{
		Namespace: key.Namespace, Name: key.Name, Verb: "patch", Group: v1alpha1.GroupVersion.Group, Resource: "uniteddeployments",
	})
	switch {
	case err != nil:
		return "whether you may change it is not known: " + err.Error()
	case !may:
		return "you have no right to patch uniteddeployments in the namespace " + key.Namespace
	}
	return ""
}

// events returns what the manager told last of a UnitedDeployment.
func (s *server) events(ctx context.Context, key client.ObjectKey) ([]event, error) {
	list := &eventsv1.EventList{}
	if err := s.List(ctx, list, client.InNamespace(key.Namespace)); err != nil {
		return nil, err
	}
	const most = 12
	var all []event
	for i := range list.Items {
		e := &list.Items[i]
		if e.Regarding.Name != key.Name {
			continue
		}
		one := event{Type: e.Type, Reason: e.Reason, Note: e.Note, Count: 1}
		at := e.EventTime.Time
		switch {
		case e.Series != nil:
			one.Count, at = e.Series.Count, e.Series.LastObservedTime.Time
		case at.IsZero():
			one.Count, at = max(1, e.DeprecatedCount), e.DeprecatedLastTimestamp.Time
		}
		one.At = at
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b event) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Note, b.Note))
	})
	return all[:min(most, len(all))], nil
}

// why shows why an object does not move.
func (s *server) why(w http.ResponseWriter, r *http.Request) {
	key := keyOf(r)
	parent, err := look.One(r.Context(), s.cluster, key.Namespace, key.Name)
	if err != nil {
		show(w, "refusal", unreadable(err))
		return
	}
	show(w, "why", s.user(newSeen()).Why(r.Context(), parent, s.manager))
}

// diff shows how two revisions differ.
func (s *server) diff(w http.ResponseWriter, r *http.Request) {
	key := keyOf(r)
	parent, err := look.One(r.Context(), s.cluster, key.Namespace, key.Name)
	if err != nil {
		show(w, "refusal", unreadable(err))
		return
	}
	revisions, err := s.user(newSeen()).Revisions(r.Context(), parent)
	var d *view.Diff
	if err == nil {
		d, err = drive.Diff(parent, revisions, r.FormValue("from"), r.FormValue("to"))
	}
	if err != nil {
		show(w, "refusal", err.Error())
		return
	}
	show(w, "diff", d)
}

// errStale is for a change of what is no longer in view.
var errStale = errors.New("nothing was done")
