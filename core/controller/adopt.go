package controller

import (
	"context"

	"github.com/millstream-io/millstream/core/metadata"
)

// Adopt adds records that were made outside, at once, to a cluster that has no topic yet:
// ErrTopicExists otherwise.
func (c *Controller) Adopt(ctx context.Context, records []metadata.Record) error {
	var reply *storedError
	if err := c.do(ctx, &adopt{records}, &reply); err != nil {
		return err
	}
	return reply.err()
}

type adopt struct{ records []metadata.Record }

func (c *adopt) handle(img *metadata.Image) ([]metadata.Record, any) {
	if img.TopicCount() > 0 {
		return nil, storeError(refuse(ErrTopicExists, "%d topics are there already", img.TopicCount()))
	}
	if _, err := applied(metadata.NewDelta(img), c.records); err != nil {
		return nil, storeError(refuse(ErrInvalidRequest, "%v", err))
	}
	return c.records, (*storedError)(nil)
}
