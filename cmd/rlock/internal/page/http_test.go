package page

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// do sends a request to a page without a network.
func do(s *Server, method, path, body string, headers map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for name, value := range headers {
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestFilesHaveTheirTypesAndHeaders(t *testing.T) {
	s := New(newFake(), Options{})
	defer s.Close()
	for path, kind := range map[string]string{"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			w := do(s, method, path, "", nil)
			require.Equal(t, http.StatusOK, w.Code, path)
			h := w.Header()
			assert.Contains(t, h.Get("Content-Type"), kind)
			assert.Equal(t, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "+
				"base-uri 'none'; form-action 'none'; frame-ancestors 'none'", h.Get("Content-Security-Policy"))
			assert.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
			assert.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
			assert.Equal(t, "no-store", h.Get("Cache-Control"))
			assert.Empty(t, h.Get("Set-Cookie"))
			assert.Equal(t, method == http.MethodHead, w.Body.Len() == 0)
		}
	}
	assert.Equal(t, http.StatusOK, do(s, http.MethodHead, "/events", "", nil).Code)
	assert.Equal(t, http.StatusNotFound, do(s, http.MethodGet, "/web/page.js", "", nil).Code)
	assert.Equal(t, http.StatusNotFound, do(s, http.MethodGet, "/events?lock=~x", "", nil).Code)
	assert.Equal(t, http.StatusNotFound, do(s, http.MethodGet, "/events?lock=%00", "", nil).Code)
}

func TestTheDocumentHasNothingInline(t *testing.T) {
	html, err := web.ReadFile("web/page.html")
	require.NoError(t, err)
	assert.NotContains(t, string(html), "style=")
	assert.NotContains(t, string(html), "<style")
	assert.NotRegexp(t, `<script[^>]*>[^<]`, string(html))
	assert.NotRegexp(t, `\son[a-z]+=`, string(html))
	script, err := web.ReadFile("web/page.js")
	require.NoError(t, err)
	for _, unsafe := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "srcdoc", "DOMParser", "localStorage", "cookie"} {
		assert.NotContains(t, string(script), unsafe)
	}
}

func TestOnlyGetAndHead(t *testing.T) {
	s := New(newFake(), Options{AllowFree: true, Token: "t"})
	defer s.Close()
	for _, path := range []string{"/", "/page.css", "/page.js", "/events"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch} {
			assert.Equal(t, http.StatusMethodNotAllowed, do(s, method, path, "", nil).Code, "%s %s", method, path)
		}
	}
	assert.Equal(t, http.StatusMethodNotAllowed, do(s, http.MethodGet, "/free", "", nil).Code)
}

func TestOtherNamesOfTheHostAreRefused(t *testing.T) {
	s := New(newFake(), Options{AllowedHosts: LoopbackHosts()})
	defer s.Close()
	for _, host := range []string{"localhost", "localhost:7070", "LOCALHOST:7070", "127.0.0.1:7070", "[::1]:7070", "[::1]", "127.0.0.1"} {
		assert.Equal(t, http.StatusOK, do(s, http.MethodGet, "/", "", map[string]string{"Host": host}).Code, host)
	}
	for _, host := range []string{"", "evil.example", "evil.example:7070", "127.0.0.1.evil.example", "localhost.evil.example:7070", "127.0.0.2"} {
		for _, path := range []string{"/", "/events"} {
			assert.Equal(t, http.StatusMisdirectedRequest, do(s, http.MethodGet, path, "", map[string]string{"Host": host}).Code, host)
		}
	}
	anywhere := New(newFake(), Options{})
	defer anywhere.Close()
	assert.Equal(t, http.StatusOK, do(anywhere, http.MethodGet, "/", "", map[string]string{"Host": "locks.example:80"}).Code)
}

func TestOtherSitesCannotUseThePage(t *testing.T) {
	s := New(newFake(), Options{})
	defer s.Close()
	site := func(site, mode string) map[string]string {
		return map[string]string{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
	}
	assert.Equal(t, http.StatusForbidden, do(s, http.MethodGet, "/events", "", site("cross-site", "cors")).Code)
	assert.Equal(t, http.StatusForbidden, do(s, http.MethodGet, "/page.js", "", site("same-site", "no-cors")).Code)
	assert.Equal(t, http.StatusOK, do(s, http.MethodGet, "/", "", site("cross-site", "navigate")).Code, "a link")
	assert.Equal(t, http.StatusOK, do(s, http.MethodHead, "/events", "", site("same-origin", "cors")).Code)
}

const body = `{"id":"b3JkZXJz","refs":["%s"]}` // orders

func freeing(ref string) string { return strings.Replace(body, "%s", ref, 1) }

func honest() map[string]string {
	return map[string]string{"Host": "127.0.0.1:7070", "Origin": "http://127.0.0.1:7070", "Sec-Fetch-Site": "same-origin", tokenHeader: "secret"}
}

func TestWithoutAllowFreeThereIsNoPost(t *testing.T) {
	f := newFake(held("orders", "client:1"))
	for _, opts := range []Options{{}, {Token: "secret"}, {AllowFree: true}} {
		s := New(f, opts)
		assert.Equal(t, http.StatusNotFound, do(s, http.MethodPost, "/free", freeing(refOf("client:1")), honest()).Code)
		s.Close()
	}
	assert.Empty(t, f.freed)
}

func TestForeignRequestsFreeNothing(t *testing.T) {
	f := newFake(held("orders", "client:1"))
	s := New(f, Options{AllowFree: true, Token: "secret"})
	defer s.Close()
	for header, values := range map[string][]string{
		"Origin":         {"", "null", "http://evil.example", "http://127.0.0.1:7071", "ftp://127.0.0.1:7070", "127.0.0.1:7070"},
		"Sec-Fetch-Site": {"", "cross-site", "same-site", "none"},
		tokenHeader:      {"", "Secret", "secret2", "secre"},
	} {
		for _, value := range values {
			headers := honest()
			headers[header] = value
			if value == "" {
				delete(headers, header)
			}
			w := do(s, http.MethodPost, "/free", freeing(refOf("client:1")), headers)
			assert.Equal(t, http.StatusForbidden, w.Code, "%s: %s", header, value)
		}
	}
	assert.Empty(t, f.freed)
}

func TestFreeComparesTheHolder(t *testing.T) {
	f := newFake(held("orders", "client:1"))
	s := New(f, Options{AllowFree: true, Token: "secret"})
	defer s.Close()
	for _, refs := range []string{refOf("client:2"), "", refOf("client:1") + `","` + refOf("client:2")} {
		w := do(s, http.MethodPost, "/free", freeing(refs), honest())
		if strings.Contains(refs, ",") {
			assert.Equal(t, http.StatusOK, w.Code, "one of the holders has left meanwhile")
			f.set(held("orders", "client:1"))
			continue
		}
		assert.Equal(t, http.StatusConflict, w.Code)
		assert.Contains(t, w.Body.String(), "its holder has changed")
	}
	w := do(s, http.MethodPost, "/free", freeing(refOf("client:1")), honest())
	assert.Equal(t, http.StatusOK, w.Code)
	assert.JSONEq(t, `{"freed":true}`, w.Body.String())
	assert.Equal(t, http.StatusConflict, do(s, http.MethodPost, "/free", freeing(refOf("client:1")), honest()).Code, "it is free now")

	f.set(held("orders", "client:1"))
	f.fail(errAway)
	w = do(s, http.MethodPost, "/free", freeing(refOf("client:1")), honest())
	assert.Equal(t, http.StatusBadGateway, w.Code)
	assert.Contains(t, w.Body.String(), "connection refused")
	for _, bad := range []string{"", "{", `{"id":1}`, `{"id":"b3JkZXJz","refs":["` + strings.Repeat("x", maxBody) + `"]}`} {
		assert.Equal(t, http.StatusBadRequest, do(s, http.MethodPost, "/free", bad, honest()).Code)
	}
}

func TestNothingOutsideThePrefix(t *testing.T) {
	f := newFake(held("orders", "client:1"))
	s := New(f, Options{AllowFree: true, Token: "secret", Prefix: "jobs:"})
	defer s.Close()
	assert.Equal(t, http.StatusNotFound, do(s, http.MethodPost, "/free", freeing(refOf("client:1")), honest()).Code)
	assert.Equal(t, http.StatusNotFound, do(s, http.MethodGet, "/events?lock="+idOf("orders"), "", nil).Code)
	assert.Empty(t, f.freed)
}
