// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// runLua runs a script as Argo CD does, with the global obj, and returns its result. The script has the
// libraries package, base and table, and of os only time and date; there is no string and no math. It
// may take a second.
func runLua(script string, obj map[string]any) (any, error) {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(library.open), Protect: true}, lua.LString(library.name)); err != nil {
			return nil, fmt.Errorf("opening %q: %w", library.name, err)
		}
	}
	l.PreloadModule(lua.OsLibName, safeOS)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	l.SetContext(ctx)
	l.SetGlobal("actionParams", l.NewTable())
	l.SetGlobal("obj", toLua(l, obj))
	if err := l.DoString(script); err != nil {
		return nil, err
	}
	return fromLua(l.Get(-1))
}

// safeOS loads a module os with nothing but time and date.
func safeOS(l *lua.LState) int {
	whole := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer whole.Close()
	lua.OpenOs(whole)
	safe := l.NewTable()
	for _, name := range []string{"time", "date"} {
		if f, ok := whole.GetField(whole.GetGlobal(lua.OsLibName), name).(*lua.LFunction); ok {
			safe.RawSetString(name, l.NewFunction(f.GFunction))
		}
	}
	l.Push(safe)
	return 1
}

func toLua(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		table := l.CreateTable(len(v), 0)
		for _, item := range v {
			table.Append(toLua(l, item))
		}
		return table
	case map[string]any:
		table := l.CreateTable(0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			table.RawSetString(key, toLua(l, v[key]))
		}
		return table
	}
	return lua.LNil
}

// fromLua converts a result. An empty table becomes a list, because Lua cannot tell it from an empty
// object.
func fromLua(value lua.LValue) (any, error) {
	switch v := value.(type) {
	case *lua.LNilType:
		return nil, nil
	case lua.LBool:
		return bool(v), nil
	case lua.LString:
		return string(v), nil
	case lua.LNumber:
		return float64(v), nil
	case *lua.LTable:
		return fromTable(v)
	}
	return nil, fmt.Errorf("a %s cannot be encoded as JSON", value.Type())
}

func fromTable(table *lua.LTable) (any, error) {
	list, object := []any{}, map[string]any{}
	var failed error
	table.ForEach(func(key, item lua.LValue) {
		converted, err := fromLua(item)
		switch k := key.(type) {
		case lua.LNumber:
			list = append(list, converted)
		case lua.LString:
			object[string(k)] = converted
		default:
			err = fmt.Errorf("a key is a %s", key.Type())
		}
		if err != nil && failed == nil {
			failed = err
		}
	})
	if failed == nil && len(list) > 0 && len(object) > 0 {
		failed = fmt.Errorf("a table is both a list and an object: %v", slices.Sorted(maps.Keys(object)))
	}
	if len(object) > 0 {
		return object, failed
	}
	return list, failed
}
