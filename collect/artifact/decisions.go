package artifact

import "time"

// Decisions are what people decided about a run, as signoff/ of its directory
// said it at a moment, and how that compares with what the directory held then.
// They are facts for the views, which say what holds. [Read] leaves them out:
// reading them needs signatures to be checked.
type Decisions struct {
	Waivers  []Waiver
	Entries  []Decision
	Findings []DecisionFinding
	Rules    DecisionRules
}

// A Waiver accepts a failure of some gates until a day. Fields other than the
// condition's are never empty, but that one of Cell and Task is.
type Waiver struct {
	ID, Cell, Task, Metric string // patterns, in which * and ? are special
	Reason, Owner, Issue   string
	LastDay                time.Time // it holds through it, UTC
	// Conditions; nil and "" are none.
	WorstMarginPct                    *float64
	Model, Driver, GPUArch, Precision string
	Line                              int
}

// A Decision is one entry of the sign-off log.
type Decision struct {
	Seq                           int
	LineSHA256, Prev              string
	Decision, Role, Identity, Key string
	SignedAt                      time.Time // UTC
	Tool                          string
	Raw, Thresholds, Waivers      string // SHA-256
	Deck, Policy                  string // SHA-256
	Headline                      string
	Failed, Waived, Vacuous       int // gates, as the reviewer saw them
	Used                          []UsedWaiver
	Conditions, Confirmed         []string
	Note                          string
}

// A UsedWaiver is a waiver that a decision stands on.
type UsedWaiver struct {
	ID      string
	LastDay time.Time // UTC
	Gates   int
}

// Classes of findings.
const (
	FindingLog    = "log"    // the log was changed after it was written
	FindingSigner = "signer" // the key may not sign for that person
	FindingStale  = "stale"  // evidence is no longer what was signed
	FindingInput  = "input"  // a file of signoff/ cannot be read
	FindingNote   = "note"
)

// A DecisionFinding is one thing to know about the decisions.
type DecisionFinding struct {
	Seq              int // 0: of the log as a whole
	Class, Code, Msg string
}

// DecisionRules are the policy that the decisions are held against.
type DecisionRules struct {
	Approvals        int // at least 1
	Roles, Checklist []string
	Calibrated       []string // tiers; nil means every tier
	NotLauncher      bool
	AllowRecord      bool
	AllowPartial     bool
	SignersChecked   bool // against an allowed-signers file
}
