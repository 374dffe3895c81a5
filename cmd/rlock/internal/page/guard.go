package page

import (
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// tokenHeader carries the token. A page of another site could not set it without asking first, which nobody answers.
	tokenHeader = "X-Rlock-Token"
	// maxBody is how long the request to free a lock may be: a hundred holders fit.
	maxBody = 16 << 10
)

// freeRequest names a lock, and the holders that were shown.
type freeRequest struct {
	ID   string   `json:"id"`
	Refs []string `json:"refs"`
}

// freeReply says what came of it.
type freeReply struct {
	Freed bool   `json:"freed"`
	Why   string `json:"why,omitempty"`
}

// fromThisPage reports whether a request comes from the page itself. Browsers say where a request that changes something is from. That it
// is from the same origin they say only over https and to loopback, so it decides only if it is there. The token does more: a page of
// another site could not set its header without asking first.
func (s *Server) fromThisPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	return s.isOrigin(r.Header.Get("Origin"), r.Host)
}

// isOrigin reports whether an origin is this page. A proxy may call the page by another name than browsers call the proxy.
func (s *Server) isOrigin(text, host string) bool {
	origin, err := url.Parse(text)
	if err != nil || origin.Scheme != "http" && origin.Scheme != "https" {
		return false
	}
	return strings.EqualFold(origin.Host, host) || s.isNamed(origin.Hostname())
}

// fromElsewhere reports whether a page of another site makes a request. It could read no reply, but each of its streams would have Redis
// read, and take the place of another. To follow a link to this page is allowed.
func (s *Server) fromElsewhere(r *http.Request) bool {
	if r.Header.Get("Origin") != "" && !s.isOrigin(r.Header.Get("Origin"), r.Host) {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin":
		return false
	case "none":
		return r.URL.Path == "/events" // somebody typed the address
	default:
		return r.URL.Path == "/events" || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Method == http.MethodPost
	}
}

// serveFree frees a lock, if the holders that a person saw are still those that it has.
func (s *Server) serveFree(w http.ResponseWriter, r *http.Request) {
	switch token := r.Header.Get(tokenHeader); {
	case !s.fromThisPage(r):
		reply(w, http.StatusForbidden, freeReply{Why: "the request is not from this page"})
		return
	case subtle.ConstantTimeCompare([]byte(token), []byte(s.opts.Token)) != 1:
		reply(w, http.StatusForbidden, freeReply{Why: "the token is wrong: open the page with the address that rlock ui printed"})
		return
	}
	var req freeRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&req); err != nil {
		reply(w, http.StatusBadRequest, freeReply{Why: "the request cannot be read"})
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the deadline was for the body
	name, ok := s.all.state.name(req.ID)
	if !ok || !strings.HasPrefix(name, s.opts.Prefix) {
		reply(w, http.StatusNotFound, freeReply{Why: "no such lock is shown here"})
		return
	}
	s.free(w, r, name, req.Refs)
}

func (s *Server) free(w http.ResponseWriter, r *http.Request, name string, refs []string) {
	ctx := r.Context()
	details, err := s.source.Show(ctx, name)
	freed := false
	holders, from := named(details, refs)
	if err == nil && len(holders) > 0 {
		freed, err = s.source.Free(ctx, name, holders...)
	}
	shown, remote := slog.String("lock", printable(name)), slog.String("remote", r.RemoteAddr)
	switch {
	case err != nil:
		s.log.LogAttrs(ctx, slog.LevelWarn, "rlock ui: a lock could not be freed", shown, remote, slog.String("error", printable(err.Error())))
		reply(w, http.StatusBadGateway, freeReply{Why: printable(err.Error())})
	case !freed:
		reply(w, http.StatusConflict, freeReply{Why: "its holder has changed"})
	default:
		s.log.LogAttrs(ctx, slog.LevelWarn, "rlock ui: a lock was freed", shown, remote, slog.String("from", strings.Join(from, ", ")))
		reply(w, http.StatusOK, freeReply{Freed: true})
	}
}

// reply sends JSON. What cannot be sent, nobody waits for.
func reply(w http.ResponseWriter, code int, v freeReply) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
