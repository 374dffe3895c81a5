package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// demonstrate asks for the payment of one invoice twice at once, and then again.
func demonstrate(ctx context.Context, addr string) error {
	type answer struct {
		code int
		text string
		err  error
	}
	ask := func() (a answer) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/invoices/42/payment", http.NoBody)
		if err != nil {
			return answer{err: err}
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return answer{err: err}
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		return answer{response.StatusCode, strings.TrimSpace(string(text)), err}
	}
	other := make(chan answer)
	go func() { other <- ask() }()
	answers := []answer{ask(), <-other, ask()}
	for _, a := range answers {
		fmt.Printf("  %d %s\n", a.code, a.text)
		if a.err != nil || a != answers[2] {
			return errors.Join(a.err, errors.New("the invoice was not paid once"))
		}
	}
	fmt.Println("Three requests, one payment.")
	return nil
}
