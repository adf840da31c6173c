// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package unreadable

import (
	"bytes"
	"encoding/json"
)

// maxDepth is how deeply nested Go's JSON decoders can read. One more level is an error before any of our types are
// involved.
const maxDepth = 10_000

// scanner finds the end of a JSON object or array and the depth of its nesting. Unlike encoding/json it has no limit,
// and it assumes valid JSON, because the API server has written it.
type scanner struct {
	depth, deepest    int
	quoted, backslash bool
}

// feed reads the next bytes. It returns how many of them belong to the value, and whether the value is complete.
func (s *scanner) feed(data []byte) (int, bool) {
	for i, b := range data {
		if s.quoted {
			switch {
			case s.backslash:
				s.backslash = false
			case b == '\\':
				s.backslash = true
			case b == '"':
				s.quoted = false
			}
			continue
		}
		switch b {
		case '"':
			s.quoted = true
		case '{', '[':
			s.depth++
			s.deepest = max(s.deepest, s.depth)
		case '}', ']':
			s.depth--
			if s.depth <= 0 {
				return i + 1, true
			}
		}
	}
	return len(data), false
}

// depthOf returns how many objects and arrays are open at once in a JSON value.
func depthOf(value []byte) int {
	s := scanner{}
	s.feed(value)
	return s.deepest
}

// part is the position of the value of an array element or object member.
type part struct {
	key        string // "" in an array
	start, end int
}

// parts returns those of a JSON object or array; false if the value is neither, or is incomplete.
func parts(value []byte) ([]part, bool) {
	i := space(value, 0)
	if i == len(value) || value[i] != '{' && value[i] != '[' {
		return nil, false
	}
	object, found := value[i] == '{', []part(nil)
	for i = space(value, i+1); i < len(value) && value[i] != '}' && value[i] != ']'; {
		var p part
		if object {
			end := span(value, i)
			if json.Unmarshal(value[i:end], &p.key) != nil {
				return nil, false
			}
			if i = space(value, end); i == len(value) || value[i] != ':' {
				return nil, false
			}
			i = space(value, i+1)
		}
		p.start, p.end = i, span(value, i)
		if p.end == p.start {
			return nil, false
		}
		found = append(found, p)
		if i = space(value, p.end); i < len(value) && value[i] == ',' {
			i = space(value, i+1)
		}
	}
	return found, i < len(value)
}

// member returns the part of an object with a key.
func member(found []part, key string) (part, bool) {
	for _, p := range found {
		if p.key == key {
			return p, true
		}
	}
	return part{}, false
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\t' || data[i] == '\n' || data[i] == '\r') {
		i++
	}
	return i
}

// span returns the end of the value that starts at i.
func span(data []byte, i int) int {
	if i == len(data) {
		return i
	}
	switch data[i] {
	case '{', '[':
		s := scanner{}
		n, _ := s.feed(data[i:])
		return i + n
	case '"':
		for j := i + 1; j < len(data); j++ {
			switch data[j] {
			case '\\':
				j++
			case '"':
				return j + 1
			}
		}
		return len(data)
	}
	if n := bytes.IndexAny(data[i:], ",:]} \t\n\r"); n >= 0 {
		return i + n
	}
	return len(data)
}
