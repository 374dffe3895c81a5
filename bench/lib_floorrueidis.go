package main

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"
)

// openFloorRueidis opens the floor's pair of scripts on rueidis.
func openFloorRueidis(c Cell) (Library, error) {
	client, err := c.rueidis()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	for _, node := range client.Nodes() {
		for _, source := range []string{floorTakeSource, floorGiveSource} {
			if err := node.Do(ctx, node.B().ScriptLoad().Script(source).Build()).Error(); err != nil {
				return nil, err
			}
		}
	}
	return &rueidisFloor{client, strconv.FormatInt(c.lease().Milliseconds(), 10)}, nil
}

type rueidisFloor struct {
	client rueidis.Client
	lease  string
}

func (l *rueidisFloor) Handle(name string) Handle { return &rueidisFloorHandle{l, name} }

func (*rueidisFloor) Key(name string) string { return name }

type rueidisFloorHandle struct {
	lib *rueidisFloor
	key string
}

func (h *rueidisFloorHandle) Lock(ctx context.Context) error {
	c := h.lib.client
	err := c.Do(ctx, c.B().Evalsha().Sha1(floorTake.Hash()).Numkeys(1).Key(h.key).Arg(floorToken, h.lib.lease).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return errTaken
	}
	return err
}

func (h *rueidisFloorHandle) Unlock(ctx context.Context) error {
	c := h.lib.client
	return c.Do(ctx, c.B().Evalsha().Sha1(floorGive.Hash()).Numkeys(1).Key(h.key).Arg(floorToken).Build()).Error()
}
