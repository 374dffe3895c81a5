package page

import (
	"context"
	"encoding/json"

	cdruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

func jsonUn(b []byte, v any) error { return json.Unmarshal(b, v) }

func rvListen(ctx context.Context, p *tab, errs *[]string) {
	chromedp.ListenTarget(ctx, func(e any) {
		if e, ok := e.(*cdruntime.EventExceptionThrown); ok {
			p.mu.Lock()
			if len(*errs) < 5 { *errs = append(*errs, e.ExceptionDetails.Error()) }
			p.mu.Unlock()
		}
	})
}
