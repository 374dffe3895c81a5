package simredis

import (
	"fmt"
	"strconv"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/wire"
)

// Command returns a call of one of rlock's scripts as a driver sends it: by its digest, or with its text.
func Command(c *wire.Call, full bool) []string {
	argv := c.AppendArgv(nil)
	args := make([]string, 0, 3+len(c.Keys)+len(argv))
	if full {
		args = append(args, "EVAL", c.Script.Source)
	} else {
		args = append(args, "EVALSHA", text(c.Script.Digest))
	}
	args = append(args, strconv.Itoa(len(c.Keys)))
	for _, key := range c.Keys {
		args = append(args, text(key))
	}
	for _, arg := range argv {
		args = append(args, text(arg))
	}
	return args
}

func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return fmt.Sprint(v)
}

// Replied returns the outcome of a call, given the reply to its command.
func Replied(c *wire.Call, raw any, cluster bool) wire.Reply {
	switch v := raw.(type) {
	case int64:
		return driver.Replied(c, v, nil)
	case []any:
		list := make([]int64, len(v))
		for i, e := range v {
			n, ok := e.(int64)
			if !ok {
				return driver.Unexpected("%T in a list", e)
			}
			list[i] = n
		}
		return driver.Replied(c, 0, list)
	case Err:
		return driver.Failed(driver.Rejected(v, string(v), cluster))
	}
	return driver.Unexpected("%T for a number", raw)
}

// Call runs one of rlock's scripts. The server learns it, if it does not know it.
func (s *Server) Call(c *wire.Call) wire.Reply {
	raw := s.Do(Command(c, false)...)
	if err, failed := raw.(Err); failed && driver.UnknownScript(string(err)) {
		raw = s.Do(Command(c, true)...)
	}
	return Replied(c, raw, false)
}
