package driver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-rlock/rlock/internal/fault"
)

// transientPrefixes lists the prefixes of temporary Redis errors: the script did not run, and a retry may succeed.
var transientPrefixes = []string{
	"LOADING", "BUSY ", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF", "NOSCRIPT", "MASTERDOWN",
	"max number of clients reached",
}

// stalePrefixes lists the prefixes of Redis errors that a stale topology could explain.
var stalePrefixes = []string{"MOVED ", "ASK ", "READONLY", "CLUSTERDOWN", "MASTERDOWN"}

// Rejected classifies an error that a server replied. The text is the server's; err may have more, and is what users see. On a
// cluster, a redirection is temporary: the client library stopped following redirections, and its topology is being refreshed.
func Rejected(err error, text string, cluster bool) *fault.Error {
	f := &fault.Error{Fate: fault.Rejected, Code: code(text), Err: err, Stale: begins(text, stalePrefixes)}
	if brokeOff(text) || deniedInScript(text) {
		f.Fate = fault.Partial
	}
	f.Transient = begins(text, transientPrefixes) || brokeOff(text) || cluster && begins(text, []string{"MOVED ", "ASK "})
	return f
}

// clusterCodes lists the codes of errors that only a node of a cluster replies.
var clusterCodes = []string{"MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN"}

// Alone completes a server's error for a client that takes the server for the only one. If it is a node of a cluster, the text says
// so, and which client to use instead. Nothing else of the error changes. It returns f.
func Alone(f *fault.Error, use string) *fault.Error {
	switch {
	case slices.Contains(clusterCodes, f.Code):
		f.Err = fmt.Errorf("this server is a node of a cluster: use %s: %w", use, f.Err)
	case f.Code == "CROSSSLOT": // which a proxy before several servers replies, too
		f.Err = fmt.Errorf("this server divides keys into slots; if it is a node of a cluster, use %s: %w", use, f.Err)
	}
	return f
}

// UnknownScript reports whether the text of a server's error says that the server does not know a script's digest.
func UnknownScript(text string) bool { return hasPrefix(text, "NOSCRIPT") }

// Unreplicated returns the error of a call that ran, but that too few replicas acknowledged. refused is why Redis refused WAIT;
// it is nil if replicas were just too slow.
func Unreplicated(refused *fault.Error, format string, args ...any) *fault.Error {
	why := fmt.Errorf("%w: %s", fault.ErrNotReplicated, fmt.Sprintf(format, args...))
	f := &fault.Error{Fate: fault.Unreplicated, Err: why}
	if refused != nil {
		f.Code, f.Stale, f.Err = refused.Code, refused.Stale, fmt.Errorf("%w: %w", why, refused.Needs("--acks 1"))
	}
	return f
}

// brokeOff reports whether a script stopped after it may have changed something: the slot of its keys was moving, and a
// missing key may be at the other node.
func brokeOff(text string) bool { return strings.Contains(text, "non local key") }

// begins reports whether a server's error has one of the prefixes. Before Redis 7, the error of a command inside a
// script comes behind a text about the script.
func begins(text string, prefixes []string) bool {
	fromScript := hasPrefix(text, "Error running script") || hasPrefix(text, "@user_script")
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return hasPrefix(text, prefix) || fromScript && strings.Contains(text, ": -"+prefix)
	})
}

// hasPrefix reports whether a server's error begins with a prefix, or with ERR and the prefix: some servers put that before it.
func hasPrefix(text, prefix string) bool {
	return strings.HasPrefix(strings.TrimPrefix(text, "ERR "), prefix)
}

// deniedInScript reports whether a server's error is that of a command inside a script to which the user has no right: as Redis 7.0 says
// it, as Redis 6.2 does, with the place in the script before it, or as all do since 7.2.
func deniedInScript(text string) bool {
	return strings.Contains(text, "The user executing the script can't ") || strings.Contains(text, "ACL failure in script")
}

// code returns the [fault.Error.Code] of a server's error.
func code(text string) string {
	if strings.Contains(text, "WRONGTYPE") { // miniredis puts other text before it
		return "WRONGTYPE"
	}
	text = strings.TrimPrefix(text, "ERR ")
	fromScript := strings.HasPrefix(text, "Error running script") || strings.HasPrefix(text, "@user_script")
	if _, inner, found := strings.Cut(text, ": -"); fromScript && found {
		text = strings.TrimPrefix(inner, "ERR ")
	}
	first, _, _ := strings.Cut(text, " ")
	switch {
	case deniedInScript(text):
		return "NOPERM"
	case strings.HasPrefix(text, "AUTH <password> called"), strings.HasPrefix(text, "Client sent AUTH"):
		return "WRONGPASS" // the server has no password at all
	case first != "WRONGPASS" && (first == "NOAUTH" || strings.Contains(text, "unauthenticated")):
		return "NOAUTH" // a proxy words this error differently
	}
	return first
}
