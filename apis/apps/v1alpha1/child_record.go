// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "encoding/json"

// A plain record has no methods, so it is marshalled field by field.
type plainRecord ChildRecord

// MarshalJSON returns the record as one string, the base64 of its JSON: it is nothing to read, and takes one line in
// what kubectl describe shows.
func (r ChildRecord) MarshalJSON() ([]byte, error) {
	raw, err := json.Marshal(plainRecord(r))
	if err != nil {
		return nil, err
	}
	return json.Marshal(raw)
}

// UnmarshalJSON reads what MarshalJSON returns. Anything else, which somebody else has written, is a record of nothing:
// an object whose status cannot be decoded could not be read at all.
func (r *ChildRecord) UnmarshalJSON(data []byte) error {
	*r = ChildRecord{}
	var raw []byte
	if json.Unmarshal(data, &raw) != nil {
		return nil
	}
	if json.Unmarshal(raw, (*plainRecord)(r)) != nil {
		*r = ChildRecord{}
	}
	return nil
}
