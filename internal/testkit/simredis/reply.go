package simredis

import (
	"math"
	"strconv"
	"strings"
)

// Err is an error reply, which begins with its code.
type Err string //nolint:errname // it is a reply, as Status is

// Error returns the text.
func (e Err) Error() string { return string(e) }

// Status is a simple string reply.
type Status string

// The errors that several commands reply. Each has the text of redis-server 7.0.
const (
	errWrongType = Err("WRONGTYPE Operation against a key holding the wrong kind of value")
	errNotInt    = Err("ERR value is not an integer or out of range")
	errNotFloat  = Err("ERR value is not a valid float")
	errRange     = Err("ERR min or max is not a float")
	errSyntax    = Err("ERR syntax error")
	errOverflow  = Err("ERR increment or decrement would overflow")
	errCursor    = Err("ERR invalid cursor")
	errNaN       = Err("ERR resulting score is not a number (NaN)")
)

func errArity(command string) Err {
	return Err("ERR wrong number of arguments for '" + command + "' command")
}

func errExpireTime(command string) Err {
	return Err("ERR invalid expire time in '" + command + "' command")
}

// cText returns a text as a C function gets it, which ends at the first zero byte.
func cText(text string) string {
	text, _, _ = strings.Cut(text, "\x00")
	return text
}

// inQuotes returns a text in an error, in quotes.
func inQuotes(text string) string { return "'" + cText(text) + "'" }

// clean returns an error or a status as it goes over the wire, where a line break would end it.
func clean(text string) string {
	text = cText(text)
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(strings.Trim(text, "\r\n"))
}

// truth is how Redis replies whether something is so.
func truth(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// texts returns a list reply.
func texts(list []string) []any {
	all := make([]any, len(list))
	for i, text := range list {
		all[i] = text
	}
	return all
}

// parseInt reads a number as Redis does: no sign but a minus, no leading zero, no space.
func parseInt(text string) (int64, bool) {
	digits := strings.TrimPrefix(text, "-")
	if text != "0" && (digits == "" || digits[0] < '1' || digits[0] > '9') {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// parseFloat reads a number as Redis does, with the C library.
func parseFloat(text string) (float64, bool) {
	f, ok := cFloat(text)
	if !ok || math.IsNaN(f) {
		return 0, false
	}
	digits := strings.TrimLeft(text, "+-")
	if math.IsInf(f, 0) && digits[0] != 'i' && digits[0] != 'I' || f == 0 && strings.ContainsAny(digits, "123456789") && !strings.HasPrefix(digits, "0e") {
		return 0, false // beyond the range
	}
	return f, true
}

// cFloat reads a whole text as strtod of the C library does, without space before the number. Beyond the range it returns an infinity
// or zero.
func cFloat(text string) (float64, bool) {
	digits := strings.ToLower(strings.TrimLeft(text, "+-"))
	if digits == "" || len(text)-len(digits) > 1 || strings.ContainsRune(text, '_') {
		return 0, false
	}
	if digits == "nan" {
		return math.NaN(), true
	}
	if strings.HasPrefix(digits, "0x") && !strings.ContainsRune(digits, 'p') {
		text += "p0"
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// formatFloat is printf of the C library with %.<digits>g.
func formatFloat(f float64, digits int) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		if math.Signbit(f) {
			return "-nan"
		}
		return "nan"
	case f == math.Trunc(f) && math.Abs(f) < 1e14 && (f != 0 || !math.Signbit(f)):
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', digits, 64)
}

// formatScore is how Redis 7.0 replies a score.
func formatScore(f float64) string { return formatFloat(f, 17) }

// same reports whether two names of commands or options are equal, whatever their case.
func same(text, name string) bool { return strings.EqualFold(text, name) }

// matches reports whether a text matches a pattern of Redis. An empty text matches an empty pattern alone.
func matches(pattern, text string) bool {
	if text == "" {
		return pattern == ""
	}
	return matchesRest(pattern, text)
}

func matchesRest(pattern, text string) bool {
	for pattern != "" {
		switch pattern[0] {
		case '*':
			pattern = strings.TrimLeft(pattern, "*")
			for i := 0; i <= len(text); i++ {
				if matchesRest(pattern, text[i:]) {
					return true
				}
			}
			return false
		case '[':
			if text == "" {
				return false
			}
			var in bool
			in, pattern = inClass(pattern[1:], text[0])
			if !in {
				return false
			}
			text = text[1:]
			continue
		case '?':
			if text == "" {
				return false
			}
		default:
			if pattern[0] == '\\' && len(pattern) > 1 {
				pattern = pattern[1:]
			}
			if text == "" || text[0] != pattern[0] {
				return false
			}
		}
		pattern, text = pattern[1:], text[1:]
	}
	return text == ""
}

// inClass reports whether a class of characters, such as [^a-c], has a character, and returns what follows it in the pattern.
func inClass(class string, c byte) (in bool, rest string) {
	negative := strings.HasPrefix(class, "^")
	if negative {
		class = class[1:]
	}
	for class != "" && class[0] != ']' {
		from, to := class[0], class[0]
		switch {
		case from == '\\' && len(class) > 1:
			from, to = class[1], class[1]
			class = class[2:]
		case len(class) > 2 && class[1] == '-':
			to = class[2]
			class = class[3:]
		default:
			class = class[1:]
		}
		in = in || min(from, to) <= c && c <= max(from, to)
	}
	return in != negative, strings.TrimPrefix(class, "]")
}
