package page

import (
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
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

// fromThisPage reports whether a request comes from the page itself. All browsers that can show it say where a request is from.
func fromThisPage(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") != "same-origin" {
		return false
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && (origin.Scheme == "http" || origin.Scheme == "https") && strings.EqualFold(origin.Host, r.Host)
}

// fromElsewhere reports whether a page of another site makes a request. It could read no reply, but each of its streams would have Redis
// read, and take the place of another. To follow a link to this page is allowed.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	default:
		return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Method == http.MethodPost
	}
}

// serveFree frees a lock, if the holders that a person saw are still those that it has.
func (s *Server) serveFree(w http.ResponseWriter, r *http.Request) {
	switch token := r.Header.Get(tokenHeader); {
	case !fromThisPage(r):
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
	name, ok := s.state.name(req.ID)
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
	if holders := named(details, refs); err == nil && len(holders) > 0 {
		freed, err = s.source.Free(ctx, name, holders...)
	}
	shown := slog.String("lock", printable(name))
	switch {
	case err != nil:
		s.log.LogAttrs(ctx, slog.LevelWarn, "rlock ui: a lock could not be freed", shown, slog.String("error", printable(err.Error())))
		reply(w, http.StatusBadGateway, freeReply{Why: printable(err.Error())})
	case !freed:
		reply(w, http.StatusConflict, freeReply{Why: "its holder has changed"})
	default:
		s.log.LogAttrs(ctx, slog.LevelInfo, "rlock ui: a lock was freed", shown, slog.Int("holders", len(refs)))
		reply(w, http.StatusOK, freeReply{Freed: true})
	}
}

// reply sends JSON. What cannot be sent, nobody waits for.
func reply(w http.ResponseWriter, code int, v freeReply) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
