package simserver

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// writer has the output of a connection. What RESP 3 would write as a map is a list, which clients take, too.
type writer struct {
	bytes.Buffer
	protocol int
}

func (w *writer) line(mark byte, text string) {
	w.WriteByte(mark)
	w.WriteString(text + "\r\n")
}

// reply adds a reply.
func (w *writer) reply(r any) {
	switch r := r.(type) {
	case nil:
		if w.protocol == 3 {
			w.line('_', "")
		} else {
			w.line('$', "-1")
		}
	case int64:
		w.line(':', strconv.FormatInt(r, 10))
	case string:
		w.line('$', strconv.Itoa(len(r)))
		w.WriteString(r + "\r\n")
	case simredis.Status:
		w.line('+', string(r))
	case simredis.Err:
		w.line('-', string(r))
	case simredis.Several: // to SUBSCRIBE and its relatives
		for _, one := range r {
			if message, ok := one.([]any); ok {
				w.push(message)
			} else {
				w.reply(one)
			}
		}
	case []any:
		w.list('*', len(r), r)
	default:
		panic(fmt.Sprintf("a reply of type %T", r))
	}
}

// push adds what is not a reply.
func (w *writer) push(parts []any) {
	if w.protocol == 3 {
		w.list('>', len(parts), parts)
	} else {
		w.list('*', len(parts), parts)
	}
}

func (w *writer) list(mark byte, n int, elements []any) {
	w.line(mark, strconv.Itoa(n))
	for _, e := range elements {
		w.reply(e)
	}
}

// readCommand reads one command as clients send it: an array of bulk strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	n, err := readLength(in, '*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:size])
	}
	return args, nil
}

func readLength(in *bufio.Reader, mark byte) (int, error) {
	text, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	rest, ok := strings.CutPrefix(text, string(mark))
	n, err := strconv.Atoi(strings.TrimSpace(rest))
	if !ok || err != nil || n < 0 || mark == '*' && n == 0 {
		return 0, fmt.Errorf("got %q, want a length after %q", text, mark)
	}
	return n, nil
}
