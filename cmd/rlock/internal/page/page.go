// Package page serves the page of rlock ui: a live view of the locks and semaphores in Redis, for a browser.
//
// The page is one document with one style sheet and one script, which are embedded. It talks to nothing but its own server, which sends
// it the rows as server-sent events: a snapshot first, and then what differs. However many browsers look, Redis is read once for all of
// them, and not at all while none does.
//
// Whoever can write to Redis decides on the names and the holders that are shown. They reach the browser as JSON, cut and with nothing in
// them that does not print, and the script shows them as text.
package page

import (
	"bytes"
	"context"
	"embed"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

// Source is where the page reads and frees. A [catalog.Catalog] is one.
type Source interface {
	// Find finds what fits a filter. The last pair has the error, if there is one.
	Find(ctx context.Context, filter catalog.Filter) iter.Seq2[catalog.Row, error]
	// Row returns what has exactly this name, or nil.
	Row(ctx context.Context, name string) (*catalog.Row, error)
	// Show returns all about one of them, or nil if there is no such lock.
	Show(ctx context.Context, name string) (*catalog.Details, error)
	// Free frees a lock that has no other holders than these. It returns false if it has, or has none.
	Free(ctx context.Context, name string, holders ...string) (bool, error)
}

// Options are what a page shows, and what it may do.
type Options struct {
	// Prefix is what the names begin with that are shown. Others can be neither seen nor freed.
	Prefix string
	// Title is the title of the page. The default is rlock. Where says which Redis it is. It should have no password in it.
	Title, Where string
	// Check is called before each look. It returns a warning about what is read, or an error if it must not be shown.
	Check func(ctx context.Context) (note string, err error)
	// AllowFree lets the page free locks, if Token is not empty. Without it, the page can only read.
	AllowFree bool
	// Token is what a browser must know to free a lock. The page takes it from the fragment of its address: /#token=<Token>, which no
	// browser sends to a server.
	Token string
	// AllowedHosts are the names, without ports, by which the page may be called, other than an IP address or localhost. Any other name
	// is refused: a web site could have its own name resolve to the address of this page, and read it.
	AllowedHosts []string
	// Logger gets what the page does and what fails. The default is none.
	Logger *slog.Logger
}

// bodyWait is for how long the body of a request may take.
const bodyWait = 10 * time.Second

// maxStreams is how many browsers may be connected at a time.
const maxStreams = 64

//go:embed web
var web embed.FS

// Server is the handler of the page. Its streams last until their requests end, or until Close, so the http.Server must have no
// WriteTimeout.
type Server struct {
	source Source
	opts   Options
	log    *slog.Logger
	mux    *http.ServeMux
	all    *list
	pace   *pace // of all searches: together, they keep Redis no busier than one
	detail *poller

	mu       sync.Mutex
	searches map[catalog.Filter]*list
	streams  sync.WaitGroup
	open     int
	closed   bool
	stop     chan struct{}
}

// New returns a page. Nothing is read before a browser connects.
func New(source Source, opts Options) *Server {
	s := &Server{
		source: source, opts: opts, log: opts.Logger, mux: http.NewServeMux(), all: &list{filter: catalog.Filter{Prefix: opts.Prefix}, state: newState()},
		pace: newPace(), searches: make(map[catalog.Filter]*list), stop: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.opts.Title == "" {
		s.opts.Title = "rlock"
	}
	s.opts.AllowFree = opts.AllowFree && opts.Token != ""
	s.all.poller = newPoller(newPace(), nil, func(ctx context.Context) { s.read(ctx, s.all) })
	s.detail = newPoller(newPace(), nil, s.readDetails)
	for path, file := range map[string]string{"/{$}": "page.html", "/page.css": "page.css", "/page.js": "page.js"} {
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, file) })
	}
	s.mux.HandleFunc("GET /events", s.serveEvents)
	if s.opts.AllowFree {
		s.mux.HandleFunc("POST /free", s.serveFree)
	}
	return s
}

// Close ends all streams and reads, and waits until they have ended. Later streams are refused. Close must come before
// [http.Server.Shutdown], which waits for the streams.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	s.mu.Unlock()
	s.streams.Wait()
	s.all.poller.wait()
	s.detail.wait()
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if r.ContentLength != 0 { // a body that does not come holds up nobody
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWait))
	}
	switch {
	case !s.allowsHost(r.Host):
		http.Error(w, "this page is not served under that name", http.StatusMisdirectedRequest)
	case r.Method == http.MethodPost && r.URL.Path == "/free" && !s.opts.AllowFree:
		http.NotFound(w, r) // and not 405: there is no such thing to use
	case s.fromElsewhere(r):
		http.Error(w, "other sites may not use this page", http.StatusForbidden)
	default:
		s.mux.ServeHTTP(w, r)
	}
}

// allowsHost reports whether the page may be called by a host, with or without a port.
func (s *Server) allowsHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil || s.isNamed(host)
}

// isNamed reports whether a host is one of the names that the page was given.
func (s *Server) isNamed(host string) bool {
	return slices.ContainsFunc(s.opts.AllowedHosts, func(allowed string) bool { return strings.EqualFold(host, allowed) })
}

// serveFile sends one of the three files.
func serveFile(w http.ResponseWriter, r *http.Request, name string) {
	f, err := web.ReadFile("web/" + name)
	if err != nil {
		http.Error(w, "the page is missing", http.StatusInternalServerError)
		return
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f))
}
