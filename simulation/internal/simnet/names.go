package simnet

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/internal/wire"
)

// scriptNames has what each script of rlock does, by its digest.
var scriptNames = sync.OnceValue(func() map[string]string {
	names := make(map[string]string)
	add := func(name string, s *wire.Script) {
		if s != nil {
			names[text(s.Digest)] = name
		}
	}
	fields := func(of any) {
		v := reflect.ValueOf(of).Elem()
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Type == reflect.TypeFor[*wire.Script]() && f.IsExported() {
				s, _ := reflect.TypeAssert[*wire.Script](v.Field(i))
				add(strings.ToLower(f.Name), s)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wire.Others)) {
		add(name, wire.Others[name])
	}
	for _, name := range slices.Sorted(maps.Keys(wire.Kinds)) {
		k := wire.Kinds[name]
		if fields(k); k.Line != nil {
			fields(k.Line)
		}
	}
	return names
})

// withText is added to the name of a script that is sent as text.
const withText = ", with its text,"

// script is what the script of a command does. A command without one has none.
func script(args []string) (name string, ok bool) {
	var digest string
	switch args[0] {
	case "EVALSHA":
		digest = args[1]
	case "EVAL":
		digest = simredis.Digest(args[1])
	default:
		return "", false
	}
	name, known := scriptNames()[digest]
	if !known {
		name = "script " + digest[:8]
	}
	if args[0] == "EVAL" {
		name += withText
	}
	return name, true
}

// command is a command for a reader: that of a script has what the script does.
func command(args []string) string {
	if name, ok := script(args); ok {
		return fmt.Sprintf("%s %v", name, args[3:])
	}
	return strings.Join(args, " ")
}

func commands(cmds [][]string) string { return list(cmds, command) }

// brief is a command of which a script has only the holder that it is about.
func brief(args []string) string {
	name, ok := script(args)
	if !ok {
		return command(args)
	}
	if keys, _ := strconv.Atoi(args[2]); len(args) > 3+keys && strings.Contains(args[3+keys], ":") {
		name += " of " + args[3+keys]
	}
	return name
}

func list(cmds [][]string, text func(args []string) string) string {
	all := make([]string, 0, len(cmds))
	for _, c := range cmds {
		all = append(all, text(c))
	}
	return strings.Join(all, "; ")
}
