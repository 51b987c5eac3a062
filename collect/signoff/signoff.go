// Package signoff turns a release decision into data that is bound to its
// evidence.
//
// A decision is one [Entry]: who decided what about which run, and the hashes of
// the raw files, thresholds, waivers and deck that were there at the time. It is
// signed in OpenSSH's signature format (PROTOCOL.sshsig), so that ssh-keygen
// alone can check it, and appended to a log in the run directory in which each
// entry names the hash of the one before. A policy file says how many people and
// which roles a decision needs, a waiver file which failures are accepted, by
// whom and until when.
//
// This package judges decisions, never measurements: gate states come to it as
// the views said them. It must not know SQL, pages or machines, and reads no
// environment and no clock.
package signoff

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"cvs/collect/strictjson"
)

// Namespace is the signature namespace: ssh-keygen -Y verify -n cvs-signoff@v1.
// A signature made for anything else is no sign-off.
const Namespace = "cvs-signoff@v1"

// entryFormat is the version of [Entry]; a reader refuses any other by name.
const entryFormat = "cvs-signoff@v1"

// A Decision is what a reviewer decided.
type Decision string

// The decisions.
const (
	Approve     Decision = "approve"
	Reject      Decision = "reject"
	Conditional Decision = "conditional" // approved once the conditions hold
)

// Decisions lists them as messages do.
func Decisions() []string { return []string{string(Approve), string(Reject), string(Conditional)} }

// An Entry is one decision about one run: the bytes that are signed are its
// JSON as it stands in the log.
type Entry struct {
	Format     string       `json:"format"`
	Seq        int          `json:"seq"`  // from 1
	Prev       string       `json:"prev"` // SHA-256 of the line before, hex; "" for the first
	RunID      string       `json:"run_id"`
	Together   []string     `json:"together,omitempty"` // the runs decided on at once, this one included
	Decision   Decision     `json:"decision"`
	Role       string       `json:"role"`
	Identity   string       `json:"identity"` // as in the allowed-signers file
	Key        string       `json:"key"`      // SHA-256 fingerprint of the signing key
	Time       time.Time    `json:"time"`     // UTC, whole seconds
	Tool       string       `json:"tool_version"`
	Evidence   Evidence     `json:"evidence"`
	Seen       Seen         `json:"seen"`
	Waivers    []UsedWaiver `json:"waivers,omitempty"` // those that a failed gate needed
	Conditions []string     `json:"conditions,omitempty"`
	Checklist  []string     `json:"checklist,omitempty"` // items confirmed
	Note       string       `json:"note,omitempty"`
}

// An Evidence binds a decision to bytes. Raw and Thresholds are SHA-256 of
// listings in the format of sha256sum, kept beside the log; the others are
// SHA-256 of files. "" means there was none.
type Evidence struct {
	Raw        string `json:"raw"`
	RawFiles   int    `json:"raw_files"`
	Thresholds string `json:"thresholds"`
	Waivers    string `json:"waivers"`
	Deck       string `json:"deck"`
	Policy     string `json:"policy"`
}

// A Seen is the verdict that the views showed the reviewer.
type Seen struct {
	Headline   string   `json:"headline"` // PASS, FAIL, INCOMPLETE, RECORD
	Incomplete bool     `json:"incomplete"`
	Simulated  bool     `json:"simulated"`
	Failed     int      `json:"failed"` // gates that fail or are invalid, waived ones included
	Waived     int      `json:"waived"` // of them
	Vacuous    int      `json:"vacuous"`
	Reasons    []string `json:"reasons,omitempty"`
}

// A UsedWaiver is a waiver that covered a failed gate.
type UsedWaiver struct {
	ID      string `json:"id"`
	Expires string `json:"expires"` // last day it holds, UTC
	Gates   int    `json:"gates"`
}

// maxNote bounds a reviewer's note, in bytes.
const maxNote = 64 << 10

// check refuses an entry that no reader could make sense of.
func (e *Entry) check() error {
	switch {
	case e.Format != entryFormat:
		return fmt.Errorf("the entry's format is %q, this version of cvs reads %q", e.Format, entryFormat)
	case e.Seq < 1:
		return fmt.Errorf("seq is %d; entries count from 1", e.Seq)
	case e.RunID == "":
		return fmt.Errorf("run_id is empty")
	case e.Decision != Approve && e.Decision != Reject && e.Decision != Conditional:
		return fmt.Errorf("decision is %q; known are %s", e.Decision, strings.Join(Decisions(), ", "))
	case e.Identity == "":
		return fmt.Errorf("identity is empty")
	case e.Role == "":
		return fmt.Errorf("role is empty")
	case e.Time.IsZero():
		return fmt.Errorf("time is missing")
	case len(e.Note) > maxNote:
		return fmt.Errorf("the note has %d bytes, at most %d are kept", len(e.Note), maxNote)
	case e.Decision == Conditional && len(e.Conditions) == 0:
		return fmt.Errorf("a conditional decision needs at least one condition")
	}
	return nil
}

// decodeEntry reads the signed bytes. Equal keys are refused, because two
// readers could take different ones of them.
func decodeEntry(signed []byte) (Entry, error) {
	var e Entry
	if _, _, err := strictjson.Parse(signed, strictjson.Options{MaxBytes: maxLine}); err != nil {
		return e, err
	}
	if err := json.Unmarshal(signed, &e); err != nil {
		return e, err
	}
	return e, e.check()
}
