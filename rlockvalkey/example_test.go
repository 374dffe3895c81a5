// Code generated from rlockrueidis by internal/twin; DO NOT EDIT.

package rlockvalkey_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/valkey-io/valkey-go"

	"github.com/go-rlock/rlock/rlockvalkey"
)

func Example() {
	server, err := miniredis.Run() // instead of your Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()

	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress:  []string{server.Addr()},
		DisableCache: true, // locks do not need the cache, and miniredis has none
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	locks, err := rlockvalkey.New(client)
	if err != nil {
		panic(err)
	}
	defer locks.Close()

	err = locks.NewLock("invoice:7").Do(context.Background(), func(context.Context) error {
		fmt.Println("this process has the lock")
		return nil
	})
	fmt.Println(err)
	// Output:
	// this process has the lock
	// <nil>
}
