package page

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-rlock/rlock"
)

const (
	// maxText is how many characters of a text are shown.
	maxText = 200
	// maxPlainID is up to how many bytes a name is its own id.
	maxPlainID = 256
)

// printable makes a text fit to be shown: cut, and with nothing in it that is invisible or turns the direction of what follows.
// Such characters are escaped, so that names that differ look different.
func printable(text string) string {
	var b strings.Builder
	shown := 0
	for i := 0; i < len(text); shown++ {
		if shown == maxText {
			b.WriteString("…")
			break
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case !unicode.IsPrint(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// idOf returns what stands for a name in addresses and messages: the name itself in base64, or the hash of a long one.
func idOf(name string) string {
	if len(name) <= maxPlainID {
		return base64.RawURLEncoding.EncodeToString([]byte(name))
	}
	return "~" + refOf(name)
}

// nameOf returns the name of an id. Known is false for the id of a long name, which must be looked up, and ok for what is no id.
func nameOf(id string) (name string, known, ok bool) {
	if hash, long := strings.CutPrefix(id, "~"); long {
		return "", false, len(hash) == base64.RawURLEncoding.EncodedLen(refBytes)
	}
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(raw) > maxPlainID {
		return "", false, false
	}
	return string(raw), true, true
}

// refBytes is long enough that nobody finds two texts with one hash.
const refBytes = 20

// refOf returns what stands for a holder in messages. The holder itself is not sent: whoever knows it could free the lock.
func refOf(text string) string {
	hash := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(hash[:refBytes])
}

// who describes a holder of a lock or a waiter. Field is the holder in Redis, or empty for a waiter.
func who(client, field string, id *rlock.Identity) string {
	if id == nil {
		text := shortID(client)
		if number := strings.TrimPrefix(field, client+":"); field != "" && client != "" && number != field {
			text += ":" + strings.TrimSuffix(number, ":write")
		}
		return printable(text)
	}
	text := id.Service
	if id.Host != "" {
		text += "@" + id.Host
	}
	if id.PID > 0 {
		text += " " + strconv.Itoa(id.PID)
	}
	if text == "" {
		text = shortID(client)
	}
	return printable(strings.TrimSpace(text))
}

// shortID cuts what is a UUID to what tells it from others.
func shortID(id string) string {
	if len(id) == 36 && id[8] == '-' {
		return id[:8]
	}
	return id
}

// permit describes a permit of a semaphore, which says nothing about its holder.
func permit(id string) string {
	return "permit " + printable(id[:min(len(id), 8)])
}
