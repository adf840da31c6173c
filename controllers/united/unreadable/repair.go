// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package unreadable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Annotation is on an object that stands in for one that cannot be read, in memory
// only: why not. Nobody can forge it, since a stand-in has no spec. See Why.
const Annotation = "united.dev/unreadable"

var errTooDeep = errors.New("it is nested deeper than can be read")

// levels are those that a list has around its objects. A watch has one less; what a
// list cannot hold is not read from a watch either, or a restart would change what is
// seen.
const levels = 2

// Check tells why an object cannot be decoded; nil when it can be.
type Check func(object []byte) error

// list is the body of a list, with each of its objects readable.
func (check Check) list(body []byte) []byte {
	members, ok := parts(body)
	if !ok {
		return body
	}
	items, ok := member(members, "items")
	if !ok {
		return body
	}
	found, _ := parts(body[items.start:items.end])
	var repaired []byte
	copied := 0
	for _, p := range found {
		start, end := items.start+p.start, items.start+p.end
		if instead := check.repair(body[start:end]); instead != nil {
			repaired = append(append(repaired, body[copied:start]...), instead...)
			copied = end
		}
	}
	if copied == 0 {
		return body
	}
	return append(repaired, body[copied:]...)
}

// event is one event of a watch, with its object readable.
func (check Check) event(frame []byte) []byte {
	members, ok := parts(frame)
	if !ok {
		return frame
	}
	kind, typed := member(members, "type")
	object, has := member(members, "object")
	if !typed || !has {
		return frame
	}
	switch string(frame[kind.start:kind.end]) {
	case `"ADDED"`, `"MODIFIED"`, `"DELETED"`:
		if instead := check.repair(frame[object.start:object.end]); instead != nil {
			return splice(frame, object, instead)
		}
	}
	return frame
}

// repair gives what is read instead of an object; nil when that can be read as it is,
// or when nothing can stand in for it.
func (check Check) repair(object []byte) []byte {
	why := check.readable(object)
	if why == nil {
		return nil
	}
	if lighter := dropDeepOwners(object); lighter != nil {
		if check.readable(lighter) == nil {
			return lighter
		}
	}
	for _, keep := range [][]string{{"apiVersion", "kind", "status"}, {"apiVersion", "kind"}} {
		if instead := standIn(object, why, keep...); instead != nil && check.readable(instead) == nil {
			return instead
		}
	}
	return nil
}

func (check Check) readable(object []byte) error {
	if depthOf(object) > maxDepth-levels {
		return errTooDeep
	}
	if check == nil {
		return nil
	}
	return check(object)
}

// dropDeepOwners leaves out of metadata.managedFields the entries that are nested too
// deep; nil when there is none. They are written by the API server, four levels deeper
// than the field they are of; and anybody may write one of his own, into a StatefulSet
// too. An owner of fields that deep is none of what this controller looks at.
func dropDeepOwners(object []byte) []byte {
	const above = 3 // the object, its metadata, the list
	members, _ := parts(object)
	metadata, ok := member(members, "metadata")
	if !ok {
		return nil
	}
	value := object[metadata.start:metadata.end]
	members, _ = parts(value)
	owners, ok := member(members, "managedFields")
	if !ok {
		return nil
	}
	list := value[owners.start:owners.end]
	found, _ := parts(list)
	kept := [][]byte{}
	for _, p := range found {
		if entry := list[p.start:p.end]; depthOf(entry)+above+levels <= maxDepth {
			kept = append(kept, entry)
		}
	}
	if len(kept) == len(found) {
		return nil
	}
	list = append(append([]byte{'['}, bytes.Join(kept, []byte{','})...), ']')
	return splice(object, metadata, splice(value, owners, list))
}

// standIn is an object with nothing but its metadata and the members to keep, and the
// annotation that says why; nil when its metadata is not to be found.
func standIn(object []byte, why error, keep ...string) []byte {
	members, _ := parts(object)
	metadata, ok := member(members, "metadata")
	if !ok {
		return nil
	}
	value := object[metadata.start:metadata.end]
	kept := fields(value)
	delete(kept, "managedFields")
	var annotations map[string]string
	if json.Unmarshal(kept["annotations"], &annotations) != nil || annotations == nil {
		annotations = map[string]string{}
	}
	annotations[Annotation] = fmt.Sprintf("%.512s", why)
	instead := fields(object)
	for key := range instead {
		if !slices.Contains(keep, key) {
			delete(instead, key)
		}
	}
	var err error
	if kept["annotations"], err = json.Marshal(annotations); err != nil {
		return nil
	}
	if instead["metadata"], err = json.Marshal(kept); err != nil {
		return nil
	}
	raw, err := json.Marshal(instead)
	if err != nil {
		return nil
	}
	return raw
}

// fields are the members of an object by key; empty when it is none.
func fields(object []byte) map[string]json.RawMessage {
	found, _ := parts(object)
	byKey := make(map[string]json.RawMessage, len(found))
	for _, p := range found {
		byKey[p.key] = object[p.start:p.end]
	}
	return byKey
}

// splice puts another value in the place of a part.
func splice(whole []byte, p part, value []byte) []byte {
	spliced := make([]byte, 0, len(whole)-(p.end-p.start)+len(value))
	spliced = append(append(spliced, whole[:p.start]...), value...)
	return append(spliced, whole[p.end:]...)
}
