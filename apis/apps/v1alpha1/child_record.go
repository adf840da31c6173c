// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// annotationPrefix is that of the annotations in a record, and is left out.
const annotationPrefix = "united.dev/"

// MarshalJSON returns the record as one string: the base64 of a JSON list of the UID, the generation, the hash, the checksum, and
// the keys and values of the annotations.
func (r ChildRecord) MarshalJSON() ([]byte, error) {
	said := []string{r.UID, strconv.FormatInt(r.Generation, 10), r.Hash, r.Checksum}
	for _, key := range slices.Sorted(maps.Keys(r.Annotations)) {
		said = append(said, strings.TrimPrefix(key, annotationPrefix), r.Annotations[key])
	}
	raw, err := json.Marshal(said)
	if err != nil {
		return nil, err
	}
	return json.Marshal(base64.RawStdEncoding.EncodeToString(raw))
}

// UnmarshalJSON reads the string of MarshalJSON, and the object that earlier versions stored. Anything else, which somebody
// else has written, is a record of nothing: an object whose status cannot be decoded could not be read at all.
func (r *ChildRecord) UnmarshalJSON(data []byte) error {
	*r = ChildRecord{}
	type plain ChildRecord // without methods
	var text string
	if json.Unmarshal(data, &text) != nil {
		if earlier := (plain{}); json.Unmarshal(data, &earlier) == nil {
			*r = ChildRecord(earlier)
		}
		return nil
	}
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	var said []string
	if json.Unmarshal(raw, &said) != nil || len(said) < 4 || len(said)%2 != 0 {
		return nil
	}
	generation, err := strconv.ParseInt(said[1], 10, 64)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	*r = ChildRecord{UID: said[0], Generation: generation, Hash: said[2], Checksum: said[3]}
	for at := 4; at < len(said); at += 2 {
		if r.Annotations == nil {
			r.Annotations = map[string]string{}
		}
		r.Annotations[annotationPrefix+said[at]] = said[at+1]
	}
	return nil
}
