package kafka

import (
	"context"
	"errors"
)

// Reach asks whether any broker answers. When none does before the context ends, the error is one
// sentence for the user.
func (c *Client) Reach(ctx context.Context) error {
	ctx, end := c.begin(ctx)
	defer end()
	_, err := c.refresh(ctx)
	var none *unreachableError
	if errors.As(err, &none) {
		return none
	}
	return err
}
