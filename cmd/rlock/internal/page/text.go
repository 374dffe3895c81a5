package page

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
	"github.com/go-rlock/rlock/internal/lua"
)

const (
	// maxText is how many characters of a text are shown, those that stand for others counted.
	maxText = 200
	// maxPlainID is up to how many bytes the id of a name is the name itself, escaped.
	maxPlainID = 256
)

// printable makes a text fit to be shown: cut, and with nothing in it that is invisible or turns the direction of what follows.
// Such characters are escaped, and the backslash, so that names that differ look different.
func printable(text string) string {
	var b strings.Builder
	shown := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		piece := text[i : i+size]
		switch {
		case r == utf8.RuneError && size == 1:
			piece = fmt.Sprintf(`\x%02x`, text[i])
		case r == '\\':
			piece = `\\`
		case invisible(r) && unicode.IsPrint(r):
			piece = fmt.Sprintf(`\u%04x`, r)
		case !unicode.IsPrint(r):
			quoted := strconv.QuoteRuneToASCII(r)
			piece = quoted[1 : len(quoted)-1]
		}
		if shown += utf8.RuneCountInString(piece); shown > maxText {
			b.WriteString("…")
			break
		}
		b.WriteString(piece)
		i += size
	}
	return b.String()
}

// invisible reports whether a character shows nothing although it counts as one that prints: fillers, selectors of variants, and a Braille
// pattern without dots.
func invisible(r rune) bool {
	return r == '\u2800' || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// cutTo cuts a text that is printable already to a number of characters.
func cutTo(text string, most int) string {
	shown := 0
	for i := range text {
		if shown == most {
			return text[:i] + "…"
		}
		shown++
	}
	return text
}

// maxMillis is the last time that a date of a script can have.
const maxMillis = 8_640_000_000_000_000

// millis returns a time as scripts have it, or 0 for one that they cannot show.
func millis(at time.Time) int64 {
	if s := at.Unix(); s < 0 || s >= maxMillis/1000 {
		return 0
	}
	return at.UnixMilli()
}

// idOf returns what stands for a name in addresses and messages: the name itself, escaped as in the fragment of an address, or the hash of
// a long one. The script does the same with what a person has written there.
func idOf(name string) string {
	if len(name) > maxPlainID {
		return "~" + refOf(name)
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// plain reports whether a byte of a name stands for itself in an id.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._:/@=,+", c) >= 0
}

// nameOf returns the name of an id. Known is false for the id of a long name, which must be looked up, and ok for what is no id.
func nameOf(id string) (name string, known, ok bool) {
	if hash, long := strings.CutPrefix(id, "~"); long {
		return "", false, len(hash) == base64.RawURLEncoding.EncodedLen(refBytes)
	}
	name, err := url.PathUnescape(id)
	if err != nil || idOf(name) != id { // there is one id for each name
		return "", false, false
	}
	return name, true, true
}

// refBytes is long enough that nobody finds two texts with one hash.
const refBytes = 20

// refOf returns what stands for a holder in messages. The holder itself is not sent: whoever knows it could free the lock.
func refOf(text string) string {
	hash := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(hash[:refBytes])
}

// whoOf describes a holder of a lock, a permit, which has no client, or a waiter, which has no field. A permit shares the first half of its
// id with other permits of its client.
func whoOf(client, field string, kept bool, id *rlock.Identity) string {
	text := shortID(client)
	switch number := strings.TrimPrefix(field, client+":"); {
	case client == "" && field != "":
		text = "permit " + field
		if half := len(field) / 2; half > 8 {
			text = "permit " + field[:8] + "…" + strings.TrimLeft(field[half:], "0")
		}
		if id != nil {
			text = catalog.Who("", id) + " · " + text
		}
	case id != nil:
		text = catalog.Who(text, id)
	case field != "" && client != "" && number != field:
		text += ":" + strings.TrimSuffix(number, lua.WriteSuffix)
	}
	if kept {
		text = "kept by " + text
	}
	return printable(text)
}

// keyOf returns what tells the holds of a lock apart: its holder, and its fencing token, because the same holder may take it again. Readers
// have none.
func keyOf(ref string, token rlock.Token, mode string) string {
	if token <= 0 || mode == lua.ReadMode {
		return ref
	}
	return ref + "#" + strconv.FormatInt(int64(token), 10)
}

// shortID cuts what is a UUID to what tells it from others.
func shortID(id string) string {
	if len(id) == 36 && id[8] == '-' {
		return id[:8]
	}
	return id
}
