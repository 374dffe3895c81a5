package simredis

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// gopher-lua reads and prints numbers in its own way. Here is that of Lua 5.1 in Redis: %.14g, and strtod.

// hidden are the names of functions that the scripts call without knowing: see rewrite.go. No script can use such a name.
const (
	hiddenConcat = "\x00concat"
	hiddenNumber = "\x00number"
	hiddenModulo = "\x00modulo"
)

// lend puts functions that work with texts and numbers as Lua 5.1 does in the place of those of gopher-lua.
func lend(l *lua.LState, global *lua.LTable) {
	l.SetFuncs(global, map[string]lua.LGFunction{
		"tostring": luaToString, "tonumber": luaToNumber, hiddenConcat: luaConcat, hiddenNumber: luaNumber, hiddenModulo: luaModulo,
	})
	text, _ := global.RawGetString("string").(*lua.LTable)
	for name, places := range map[string]int{
		"byte": 1, "find": 2, "gmatch": 2, "gsub": 3, "len": 1, "lower": 1, "match": 2, "rep": 1, "reverse": 1, "sub": 1, "upper": 1,
	} {
		withTexts(l, text, name, places)
	}
	wrap(l, text, "match", func(l *lua.LState, inner lua.LGFunction) int {
		if n := inner(l); n > 0 {
			return n
		}
		l.Push(lua.LNil) // in gopher-lua, no value is returned, which is no argument of a call
		return 1
	})
	wrap(l, global, "unpack", func(l *lua.LState, inner lua.LGFunction) int {
		n := inner(l)
		if n >= maxResults {
			l.RaiseError("too many results to unpack")
		}
		return n
	})
	text.RawSetString("format", l.NewFunction(luaFormat))
	tables, _ := global.RawGetString("table").(*lua.LTable)
	tables.RawSetString("concat", l.NewFunction(luaJoin))
	numbers, _ := global.RawGetString("math").(*lua.LTable)
	for _, name := range []string{"abs", "ceil", "floor", "fmod", "log", "max", "min", "pow", "sqrt"} {
		withNumbers(l, numbers, name)
	}
	numbers.RawSetString("random", lua.LNil) // there is no randomness
	numbers.RawSetString("randomseed", lua.LNil)
}

// maxResults is about how many results a function may return: LUAI_MAXCSTACK of Redis's Lua.
const maxResults = 7990

// withTexts has a function get its first arguments, where they are numbers, as texts.
func withTexts(l *lua.LState, lib *lua.LTable, name string, places int) {
	wrap(l, lib, name, func(l *lua.LState, inner lua.LGFunction) int {
		for i := 1; i <= min(places, l.GetTop()); i++ {
			if n, ok := l.Get(i).(lua.LNumber); ok {
				l.Replace(i, lua.LString(numberText(n)))
			}
		}
		return inner(l)
	})
}

// withNumbers has a function get arguments that are texts as numbers.
func withNumbers(l *lua.LState, lib *lua.LTable, name string) {
	wrap(l, lib, name, func(l *lua.LState, inner lua.LGFunction) int {
		for i := 1; i <= l.GetTop(); i++ {
			if text, ok := l.Get(i).(lua.LString); ok {
				if n, ok := textNumber(string(text)); ok {
					l.Replace(i, n)
				} else {
					l.Replace(i, lua.LString("no number")) // gopher-lua would take 0b1 for one
				}
			}
		}
		return inner(l)
	})
}

// wrap puts a function in the place of one of a library, which it gets.
func wrap(l *lua.LState, lib *lua.LTable, name string, f func(l *lua.LState, inner lua.LGFunction) int) {
	inner, _ := lib.RawGetString(name).(*lua.LFunction)
	upvalues := make([]lua.LValue, len(inner.Upvalues)) // which inner looks for in the function that runs
	for i, up := range inner.Upvalues {
		upvalues[i] = up.Value()
	}
	lib.RawSetString(name, l.NewClosure(func(l *lua.LState) int { return f(l, inner.GFunction) }, upvalues...))
}

func numberText(n lua.LNumber) string { return formatFloat(float64(n), 14) }

// space is what the C library skips before a number.
const space = " \t\n\v\f\r"

// textNumber reads a text as tonumber does.
func textNumber(text string) (lua.LNumber, bool) {
	f, ok := cFloat(strings.Trim(text, space))
	return lua.LNumber(f), ok
}

// toText returns a value as tostring does.
func toText(l *lua.LState, v lua.LValue) string {
	switch v := v.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return numberText(v)
	}
	return l.ToStringMeta(v).String()
}

func luaToString(l *lua.LState) int {
	l.Push(lua.LString(toText(l, l.CheckAny(1))))
	return 1
}

func luaToNumber(l *lua.LState) int {
	base := l.OptInt(2, 10)
	if base != 10 {
		if base < 2 || base > 36 {
			l.RaiseError("bad argument #2 to 'tonumber' (base out of range)")
		}
		l.Push(inBase(toText(l, l.CheckAny(1)), base))
		return 1
	}
	switch v := l.CheckAny(1).(type) {
	case lua.LNumber:
		l.Push(v)
		return 1
	case lua.LString:
		if n, ok := textNumber(string(v)); ok {
			l.Push(n)
			return 1
		}
	}
	l.Push(lua.LNil)
	return 1
}

// inBase reads a number as strtoul of the C library does. A number that is too big is the biggest one.
func inBase(text string, base int) lua.LValue {
	text = strings.Trim(text, space)
	digits := strings.TrimPrefix(text, "-")
	negative := len(digits) < len(text)
	if !negative {
		digits = strings.TrimPrefix(digits, "+")
	}
	if lower := strings.ToLower(digits); base == 16 && strings.HasPrefix(lower, "0x") {
		digits = digits[2:]
	}
	n, err := strconv.ParseUint(digits, base, 64)
	switch {
	case err != nil && n != math.MaxUint64:
		return lua.LNil
	case negative && err == nil:
		n = -n
	}
	return lua.LNumber(n)
}

// luaConcat is the operator "..", of a whole chain. Its first argument has the names of the others, for the error.
func luaConcat(l *lua.LState) int {
	n := l.GetTop()
	var buffer [16]string
	parts := buffer[:0]
	for i := 2; i <= n; i++ {
		switch v := l.Get(i).(type) {
		case lua.LString:
			parts = append(parts, string(v))
		case lua.LNumber:
			parts = append(parts, numberText(v))
		default:
			refuseConcat(l, n)
		}
	}
	l.Push(lua.LString(strings.Join(parts, "")))
	return 1
}

// refuseConcat raises the error about the operand that Lua meets first: it goes from right to left, by pairs.
func refuseConcat(l *lua.LState, n int) {
	joins := func(i int) bool {
		t := l.Get(i).Type()
		return t == lua.LTString || t == lua.LTNumber
	}
	names := strings.Split(l.CheckString(1), nameBreak)
	for i := n - 1; i >= 2; i-- {
		for _, operand := range []int{i, i + 1} {
			if !joins(operand) {
				l.RaiseError("attempt to concatenate %s", described(names[operand-2], l.Get(operand)))
			}
		}
	}
}

// described returns a value as Lua's errors name it.
func described(name string, v lua.LValue) string {
	if name == "" {
		return "a " + v.Type().String() + " value"
	}
	return name + " (a " + v.Type().String() + " value)"
}

// luaNumber returns an operand of arithmetic as a number. Its second argument is the name of the operand.
func luaNumber(l *lua.LState) int {
	switch v := l.Get(1).(type) {
	case lua.LNumber:
		l.Push(v)
		return 1
	case lua.LString:
		if n, ok := textNumber(string(v)); ok {
			l.Push(n)
			return 1
		}
	}
	l.RaiseError("attempt to perform arithmetic on %s", described(l.CheckString(2), l.Get(1)))
	return 0
}

// luaModulo is the operator "%", of two numbers. Beyond 2^53 it is not exact, and for an infinity it is no number.
func luaModulo(l *lua.LState) int {
	a, b := float64(l.CheckNumber(1)), float64(l.CheckNumber(2))
	times := math.Floor(a/b) * b
	l.Push(lua.LNumber(a - times))
	return 1
}

// luaJoin is table.concat.
func luaJoin(l *lua.LState) int {
	t, between, first := l.CheckTable(1), "", l.OptInt(3, 1)
	if v := l.Get(2); v != lua.LNil {
		between = toText(l, v)
	}
	last := l.OptInt(4, t.Len())
	var all strings.Builder
	for i := first; i <= last; i++ {
		v := t.RawGetInt(i)
		if v.Type() != lua.LTString && v.Type() != lua.LTNumber {
			l.RaiseError("invalid value (%s) at index %d in table for 'concat'", v.Type(), i)
		}
		all.WriteString(toText(l, v))
		if i < last {
			all.WriteString(between)
		}
	}
	l.Push(lua.LString(all.String()))
	return 1
}

// luaFormat is string.format.
func luaFormat(l *lua.LState) int {
	format, arg := l.CheckString(1), 1
	var all strings.Builder
	for format != "" {
		before, rest, found := strings.Cut(format, "%")
		all.WriteString(before)
		if !found {
			break
		}
		end := strings.IndexFunc(rest, func(c rune) bool { return !strings.ContainsRune("-+ #0123456789.", c) })
		if end < 0 {
			l.RaiseError("invalid option '%%%s' to 'format'", "")
		}
		flags, verb := rest[:end], rest[end]
		format = rest[end+1:]
		if verb == '%' {
			all.WriteByte('%')
			continue
		}
		arg++
		all.WriteString(formatted(l, flags, verb, arg))
	}
	l.Push(lua.LString(all.String()))
	return 1
}

// formatted is one directive of string.format.
func formatted(l *lua.LState, flags string, verb byte, arg int) string {
	if l.GetTop() < arg {
		l.RaiseError("bad argument #%d to 'format' (no value)", arg)
	}
	if verb == 's' || verb == 'q' {
		if t := l.Get(arg).Type(); t != lua.LTString && t != lua.LTNumber {
			l.RaiseError("bad argument #%d to 'format' (string expected, got %s)", arg, t)
		}
		if verb == 'q' {
			return quoted(toText(l, l.Get(arg)))
		}
		text := toText(l, l.Get(arg))
		if flags != "" {
			text = cText(text)
		}
		return fmt.Sprintf("%"+flags+"s", text)
	}
	n, ok := l.Get(arg).(lua.LNumber)
	if text, isText := l.Get(arg).(lua.LString); isText {
		n, ok = textNumber(string(text))
	}
	if !ok {
		l.RaiseError("bad argument #%d to 'format' (number expected, got %s)", arg, l.Get(arg).Type())
	}
	f := float64(n)
	switch verb {
	case 'd', 'i':
		return fmt.Sprintf("%"+flags+"d", toInt(f))
	case 'u':
		return fmt.Sprintf("%"+flags+"d", uint64(toInt(f))) // as in C
	case 'x', 'X', 'o':
		return fmt.Sprintf("%"+flags+string(verb), uint64(toInt(f))) // as in C
	case 'c':
		return string([]byte{byte(toInt(f))}) // as in C
	case 'e', 'E', 'f', 'g', 'G':
		if math.IsInf(f, 0) || math.IsNaN(f) {
			return fmt.Sprintf("%"+strings.ReplaceAll(strings.SplitN(flags, ".", 2)[0], "0", "")+"s", formatFloat(f, 14))
		}
		if !strings.Contains(flags, ".") {
			flags += ".6"
		}
		return fmt.Sprintf("%"+flags+string(verb), f)
	}
	l.RaiseError("invalid option '%%%c' to 'format'", verb)
	return ""
}

// quoted is %q.
func quoted(text string) string {
	var all strings.Builder
	all.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; c {
		case '"', '\\', '\n':
			all.Write([]byte{'\\', c})
		case '\r':
			all.WriteString(`\r`)
		case 0:
			all.WriteString(`\000`)
		default:
			all.WriteByte(c)
		}
	}
	return all.String() + `"`
}

// atLine is where something in a script is.
func atLine(line int, what string) string { return strconv.Itoa(line) + nameBreak + what }
