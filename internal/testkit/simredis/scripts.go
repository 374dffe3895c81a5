package simredis

import (
	"crypto/sha1" // by which Redis names scripts
	"encoding/hex"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
)

type script struct {
	digest string
	proto  *lua.FunctionProto
	names  map[string]string // see rewriter
}

// compiled has every script that this process has compiled, by its source. All servers share it.
var compiled sync.Map

// Digest returns the SHA-1 of a script, by which EVALSHA names it.
func Digest(source string) string {
	sum := sha1.Sum([]byte(source)) // as Redis does
	return hex.EncodeToString(sum[:])
}

// FlushScripts forgets all scripts, as SCRIPT FLUSH does.
func (s *Server) FlushScripts() { s.scripts = map[string]*script{} }

// learn compiles a script, and keeps it for EVALSHA.
func (s *Server) learn(source string) (*script, Err) {
	known, ok := compiled.Load(source)
	if !ok {
		proto, names, err := compile(source)
		if err != nil {
			return nil, Err(clean("ERR Error compiling script (new function): " + err.Error()))
		}
		known, _ = compiled.LoadOrStore(source, &script{Digest(source), proto, names})
	}
	c, _ := known.(*script)
	s.scripts[c.digest] = c
	return c, ""
}

// scriptCommands are about scripts.
var scriptCommands = map[string]talk{
	"EVAL":          func(c *Conn, a []string) any { return c.eval(a, false) },
	"EVALSHA":       func(c *Conn, a []string) any { return c.eval(a, true) },
	"SCRIPT|LOAD":   cmdScriptLoad,
	"SCRIPT|EXISTS": cmdScriptExists,
	"SCRIPT|FLUSH":  cmdScriptFlush,
	"SCRIPT|KILL":   cmdScriptKill,
}

func cmdScriptLoad(c *Conn, a []string) any {
	known, err := c.server.learn(a[2])
	if err != "" {
		return err
	}
	return known.digest
}

func cmdScriptExists(c *Conn, a []string) any {
	all := make([]any, 0, len(a))
	for _, digest := range a[2:] {
		_, ok := c.server.scripts[strings.ToLower(digest)]
		all = append(all, truth(ok))
	}
	return all
}

func cmdScriptFlush(c *Conn, a []string) any {
	if len(a) > 3 || len(a) == 3 && !same(a[2], "SYNC") && !same(a[2], "ASYNC") {
		return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	c.server.FlushScripts()
	return Status("OK")
}

func cmdScriptKill(c *Conn, _ []string) any {
	if !c.server.busy {
		return Err("NOTBUSY No scripts in execution right now.")
	}
	c.server.busy = false
	return Status("OK")
}

// eval runs EVAL, or EVALSHA.
func (c *Conn) eval(a []string, byDigest bool) any {
	s := c.server
	const noScript = Err("NOSCRIPT No matching script. Please use EVAL.")
	if byDigest && len(a[1]) != 2*sha1.Size {
		return noScript
	}
	n, ok := parseInt(a[2])
	switch {
	case !ok:
		return errNotInt
	case n > int64(len(a)-3):
		return Err("ERR Number of keys can't be greater than number of args")
	case n < 0:
		return Err("ERR Number of keys can't be negative")
	}
	var code *script
	if byDigest {
		if code = s.scripts[strings.ToLower(a[1])]; code == nil {
			return noScript
		}
	} else {
		var err Err
		if code, err = s.learn(a[1]); err != "" {
			return err
		}
	}
	if s.isStale() {
		return errMasterDown
	}
	if s.engine == nil {
		s.engine = newEngine(s)
	}
	s.frozen = s.Clock().UnixMicro()
	defer func() { s.frozen = 0 }()
	return s.engine.run(c, code, a[3:3+n], a[3+n:])
}
