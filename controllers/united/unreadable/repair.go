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

// Annotation is on an object that stands in for one that cannot be read, only in memory. It has the reason. Nobody can
// forge it, because a stand-in has no spec.
const Annotation = "united.dev/unreadable"

var errTooDeep = errors.New("it is nested deeper than can be read")

// levels is the number of levels that a list has around its objects. A watch has one less; but an object that a list
// cannot hold is not read from a watch either, because then a restart would change what is seen.
const levels = 2

// Check returns why an object cannot be decoded; nil if it can.
type Check func(object []byte) error

// list returns the body of a list in which each object is readable.
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

// event returns an event of a watch in which the object is readable.
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

// repair returns what replaces an object; nil if the object can be read as it is, or if nothing can stand in for it.
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

// dropDeepOwners removes the entries from metadata.managedFields that are nested too deeply; it returns nil if there
// are none. The API server writes these entries, four levels deeper than their fields; and anybody may write one, in a
// StatefulSet too. This controller does not check the owners of fields at that depth.
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

// standIn returns an object with only its metadata, the members to keep, and the annotation with the reason; nil if
// there is no metadata.
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

// fields returns the members of an object by key; it is empty if the value is not an object.
func fields(object []byte) map[string]json.RawMessage {
	found, _ := parts(object)
	byKey := make(map[string]json.RawMessage, len(found))
	for _, p := range found {
		byKey[p.key] = object[p.start:p.end]
	}
	return byKey
}

// splice replaces a part with another value.
func splice(whole []byte, p part, value []byte) []byte {
	spliced := make([]byte, 0, len(whole)-(p.end-p.start)+len(value))
	spliced = append(append(spliced, whole[:p.start]...), value...)
	return append(spliced, whole[p.end:]...)
}
