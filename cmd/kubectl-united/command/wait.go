// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
)

// lookTimeout bounds one look: a connection that is gone without a word would hang until the end.
const lookTimeout = 10 * time.Second

func (o *options) wait() *cobra.Command {
	var what, revision string
	var timeout time.Duration
	kinds := []string{view.AwaitSettled, view.AwaitComplete, view.AwaitHeld}
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait in a pipeline, and fail as soon as the rollout does",
		Long: `Wait until a rollout is

  settled   the cluster is what the spec asks for: complete, or held as it asks
  complete  every replica runs the new version
  held      partitions, a pause, or an approval hold it, and everything else is done

Exit codes: 0 as asked; 1 failed or stalled, at once, with the reason; 2 timed out; 3 nobody answers: for 30 seconds no
manager has observed the last change, or renewed its Lease (if you may read that); 4 it could not be asked: no such object, no
connection at the start, no right, a wrong flag. A status of an earlier change never counts.`,
		Example: `  kubectl united wait web
  kubectl united wait web --for complete --timeout 1h`,
		Args: func(cmd *cobra.Command, args []string) error { return unasked(written(cobra.ExactArgs(1))(cmd, args)) }, ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, kind := range kinds {
				if what == kind {
					return o.await(cmd.Context(), args[0], view.Wait{For: what, Revision: revision, Deadline: time.Now().Add(timeout)}, timeout)
				}
			}
			return unasked(fmt.Errorf("--for %s: it can be %s, %s or %s", what, kinds[0], kinds[1], kinds[2]))
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return unasked(err) })
	cmd.Flags().StringVar(&what, "for", view.AwaitSettled, "settled, complete or held")
	cmd.Flags().StringVar(&revision, "revision", "", "fail if this is not, or no longer, the update revision, such as after an undo")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait; 0 looks once")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// unasked is an error because of which it is not known how a rollout stands.
func unasked(err error) error {
	if err == nil {
		return nil
	}
	return exit{err, codeUnasked}
}

// await looks once a second. It prints what changes, and returns when the wait is over.
func (o *options) await(ctx context.Context, name string, w view.Wait, timeout time.Duration) error {
	// The first look must succeed: a name or an address that is wrong stays so.
	if _, err := o.one(ctx, name); err != nil {
		return unasked(err)
	}
	say, manager := o.progress(), &leases{api: o.api}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		seen, err := o.sight(ctx, name, manager)
		switch {
		case ctx.Err() != nil:
			return errors.New("interrupted")
		case apierrors.IsNotFound(err) && !drive.Unserved(err):
			return exit{fmt.Errorf("%s was deleted", name), codeOther}
		case lasting(err):
			return unasked(drive.Explained(err))
		case err != nil && !time.Now().Before(w.Deadline):
			return exit{fmt.Errorf("timed out after %s: %w", timeout, err), codeTimeout}
		case err != nil:
			say("the API server does not answer: " + err.Error())
			w = w.Away()
		default:
			outcome, why, next := w.Look(seen)
			say(next.Line(seen))
			if outcome != view.WaitGoesOn {
				return o.waited(name, w.For, outcome, why, timeout)
			}
			w = next
		}
		select {
		case <-ctx.Done():
			return errors.New("interrupted")
		case <-ticker.C:
		}
	}
}

// progress returns a function that prints a line to the error output, unless it is the last one again.
func (o *options) progress() func(line string) {
	last := ""
	return func(line string) {
		if line != last {
			_, _ = fmt.Fprintln(o.ErrOut, time.Now().UTC().Format(time.RFC3339), line)
		}
		last = line
	}
}

// waited returns the result of a wait that is over.
func (o *options) waited(name, what string, outcome view.WaitOutcome, why string, timeout time.Duration) error {
	switch outcome {
	case view.WaitMet:
		_, err := fmt.Fprintf(o.Out, "%s is %s: %s\n", name, what, why)
		return err
	case view.WaitTimedOut:
		return exit{fmt.Errorf("%s is not %s after %s: %s", name, what, timeout, why), codeTimeout}
	case view.WaitNobody:
		return exit{errors.New(why), codeNobody}
	}
	return exit{fmt.Errorf("%s: %s", name, why), codeOther}
}

// lasting reports whether an error is one that does not pass by itself.
func lasting(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) || drive.Unserved(err)
}

// sight reads what there is to see of a UnitedDeployment. Only the object itself must be readable.
func (o *options) sight(ctx context.Context, name string, manager *leases) (*view.Sight, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	namespace, err := o.namespace()
	if err != nil {
		return nil, err
	}
	// The Lease comes first: what the status says was then written by who held it.
	s := &view.Sight{Lease: manager.read(ctx)}
	if s.Parent, err = look.One(ctx, o.api, namespace, name); err != nil {
		return nil, err
	}
	if len(view.Unseen(s.Parent)) > 0 {
		s.Update = revisionNamed(ctx, o.api, s.Parent)
	}
	s.Now = time.Now()
	return s, nil
}

// leases reads the Lease of the manager. It asks for it in all namespaces only until it has found it, or was refused.
type leases struct {
	api client.Reader
	// at is where it is; off means that the user may not read it.
	at  client.ObjectKey
	off bool
}

// read returns the Lease, of several the one that was renewed last; nil if it cannot be read.
func (l *leases) read(ctx context.Context) *coordinationv1.Lease {
	if l.off {
		return nil
	}
	if l.at.Name == "" {
		l.find(ctx)
	}
	one := &coordinationv1.Lease{}
	switch err := l.api.Get(ctx, l.at, one); {
	case apierrors.IsForbidden(err):
		l.off = true
		return nil
	case err != nil:
		l.at = client.ObjectKey{} // it may be elsewhere after United was installed anew
		return nil
	}
	return one
}

func (l *leases) find(ctx context.Context) {
	l.at = client.ObjectKey{Namespace: drive.ManagerNamespace, Name: drive.LeaseName}
	list := &coordinationv1.LeaseList{}
	if l.api.List(ctx, list, client.MatchingFields{"metadata.name": drive.LeaseName}) != nil {
		return // maybe the user may read it where the manual installs it
	}
	var latest *coordinationv1.Lease
	for i := range list.Items {
		if latest == nil || latest.Spec.RenewTime.Before(list.Items[i].Spec.RenewTime) {
			latest = &list.Items[i]
			l.at = client.ObjectKeyFromObject(latest)
		}
	}
}

// revisionNamed returns the update revision; nil if it cannot be read.
func revisionNamed(ctx context.Context, api client.Reader, parent *v1alpha1.UnitedDeployment) *appsv1.ControllerRevision {
	r := &appsv1.ControllerRevision{}
	if api.Get(ctx, client.ObjectKey{Namespace: parent.Namespace, Name: parent.Status.UpdateRevision}, r) != nil {
		return nil
	}
	return r
}
