package faultproxy

import (
	"slices"
	"time"
)

// Stage is where a request is cut.
type Stage string

// The stages, in the order of a request's life.
const (
	BeforeRequest Stage = "before the request" // the broker gets nothing of it
	MidRequest    Stage = "mid request"        // the broker gets half of it
	BeforeAnswer  Stage = "before the answer"  // the broker has answered, the client hears nothing
	MidAnswer     Stage = "mid answer"         // the client gets half of it
)

// Stages are all of them.
var Stages = []Stage{BeforeRequest, MidRequest, BeforeAnswer, MidAnswer}

// Request is one that is in flight: begun by the client, and not wholly answered.
type Request struct {
	Node  int32     `json:"node"`
	Who   string    `json:"who"`
	Key   int16     `json:"key"`
	Since time.Time `json:"since"`
}

// Cut cuts one connection.
type Cut struct {
	Who   string  // whose; empty: anybody's
	Keys  []int16 // in the middle of one of these kinds
	Stage Stage
}

func (c Cut) fits(who string, key int16, stage Stage) bool {
	return c.Stage == stage && (c.Who == "" || c.Who == who) && slices.Contains(c.Keys, key)
}

// Armed is a cut that waits for its request.
type Armed struct {
	Cut
	hit func(Request)
}

// Weather is what lies on links until it is set back.
type Weather struct {
	Who      string        // on whose; empty: on all
	Delay    time.Duration // of each frame
	Throttle int           // bytes a second, of each link and direction; 0: none
	HalfOpen HalfOpen
}

// HalfOpen says what of a link is silently lost. When the weather changes, links that lost something are cut.
type HalfOpen string

// What is lost.
const (
	Whole HalfOpen = ""         // nothing
	Deaf  HalfOpen = "requests" // the broker hears nothing
	Dumb  HalfOpen = "answers"  // the broker hears and does, the client hears nothing
)

func (w Weather) on(who string) bool {
	return (w.Who == "" || w.Who == who) && (w.Delay > 0 || w.Throttle > 0 || w.HalfOpen != Whole)
}

// holds is how long a frame is held up.
func (w Weather) holds(bytes int) time.Duration {
	d := w.Delay
	if w.Throttle > 0 {
		d += time.Duration(float64(bytes) / float64(w.Throttle) * float64(time.Second))
	}
	return d
}
