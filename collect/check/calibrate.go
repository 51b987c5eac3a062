package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Words of the prompt. The filler repeats one common word, so that nearly every
// tokenizer counts each repetition as one token.
const (
	fillerWord   = "foo "
	needleBefore = "The pass key is "
	needleAfter  = ". "
	question     = "\n\nWhat is the pass key? Answer with the pass key and nothing else."

	// maxFullCounts bounds the full-length requests, which cost a whole prefill each.
	maxFullCounts = 24
	shortFiller   = 32 // words of the short prompts that show what a word and a needle cost
	longFiller    = shortFiller + 256
)

// errTooLong ends a calibration whose result would be skipped.
var errTooLong = errors.New("the cell does not fit")

// A calibrator finds how many filler words make a prompt of exactly isl tokens.
// There is no tokenizer here: the server counts, in the usage of requests for a
// single token. What a word costs is seen on short prompts; the full length is
// predicted from it, checked, and corrected by bisection if the prediction was
// wrong. The needles of the other prompts differ by a few tokens, which short
// requests show.
type calibrator struct {
	Calibration
	s       Server
	needles []string
	depth   float64
	isl     int
}

// text is the prompt with n filler words, of which the share depth comes before
// the needle.
func (c *calibrator) text(needle string, n int) string {
	before := int(c.depth*float64(n) + 0.5)
	return strings.Repeat(fillerWord, before) + needleBefore + needle + needleAfter + strings.Repeat(fillerWord, n-before) + question
}

// count asks the server how many tokens a prompt has.
func (c *calibrator) count(ctx context.Context, path string, body any) (int, error) {
	c.Requests++
	a, _, err := c.s.ask(ctx, path, body, niahRequest)
	if err != nil {
		return 0, err
	}
	if a.Usage.PromptTokens <= 0 {
		return 0, fmt.Errorf("POST %s: the reply has no usage.prompt_tokens", path)
	}
	return a.Usage.PromptTokens, nil
}

func (c *calibrator) plain(ctx context.Context, needle string, n int) (int, error) {
	return c.count(ctx, completionPath, completionRequest{Model: c.s.Model, Prompt: c.text(needle, n), MaxTokens: 1})
}

// prompts builds one prompt a needle. fits is asked as soon as the size of the
// chat template is known.
func (c *calibrator) prompts(ctx context.Context, fits func(template int) bool) ([]string, error) {
	if len(c.needles) == 0 {
		return nil, nil
	}
	first := c.needles[0]
	bare, err := c.plain(ctx, first, 1)
	if err != nil {
		return nil, err
	}
	if bare > c.isl {
		return nil, fmt.Errorf("ISL %d is too short: the prompt with one word of filler has %d tokens", c.isl, bare)
	}
	chat, err := c.count(ctx, chatPath, c.s.user(c.text(first, 1), 1))
	if err != nil {
		return nil, err
	}
	c.TemplateTokens = max(chat-bare, 0)
	if !fits(c.TemplateTokens) {
		return nil, errTooLong
	}
	// A short ISL allows no long probe, and needs none.
	n, short := 1, bare
	per := 1.0
	if bare+longFiller < c.isl {
		some, err := c.plain(ctx, first, shortFiller)
		if err != nil {
			return nil, err
		}
		long, err := c.plain(ctx, first, longFiller)
		if err != nil {
			return nil, err
		}
		per = float64(long-some) / (longFiller - shortFiller)
		if some <= c.isl {
			n, short = shortFiller, some
		}
	}
	if per <= 0 {
		return nil, fmt.Errorf("the server counts no tokens for more filler (%d, then not more)", short)
	}
	c.TokensPerWord = per
	words, err := c.search(ctx, first, n, short)
	if err != nil {
		return nil, err
	}
	c.FillerWords, c.Exact = words, c.PromptTokens == c.isl
	out := []string{c.text(first, words)}
	for _, needle := range c.needles[1:] {
		got, err := c.plain(ctx, needle, n)
		if err != nil {
			return nil, err
		}
		out = append(out, c.text(needle, max(words-round(float64(got-short)/per), 1)))
	}
	return out, nil
}

// search finds the most filler words whose prompt has no more than isl tokens,
// given that n words make got. Tokens grow with words.
func (c *calibrator) search(ctx context.Context, needle string, n, got int) (words int, err error) {
	low, lowTokens := n, got // fits
	high := 0                // the fewest words known not to fit, 0: not known
	for range maxFullCounts {
		if lowTokens == c.isl || high == low+1 {
			break
		}
		next := low + max(round(float64(c.isl-lowTokens)/c.TokensPerWord), 1)
		if high > 0 && next >= high {
			next = low + (high-low)/2
		}
		tokens, err := c.plain(ctx, needle, next)
		if err != nil {
			return 0, err
		}
		if tokens > c.isl {
			high = next
			continue
		}
		low, lowTokens = next, tokens
	}
	c.PromptTokens = lowTokens
	return low, nil
}

func round(f float64) int {
	if f < 0 {
		return -int(-f + 0.5)
	}
	return int(f + 0.5)
}
