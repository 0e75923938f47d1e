package auth

import "sync"

// Session is a call of a principal.
type Session struct {
	// Principal makes the call. It stays what it was when the call began.
	Principal *Principal

	auth *Authenticator
	evidence

	mu    sync.Mutex // against the sweep of watched calls
	asked scope
}

// scope is what a call has asked for; of an access of 0, nothing yet.
type scope struct {
	access   Access
	tenant   string
	ownerSet bool
}

// Authorize returns nil if the principal may make a request of this scope. It is asked before anything is looked up.
func (s *Session) Authorize(access Access, tenant string, ownerSet bool) error {
	s.mu.Lock()
	s.asked = scope{access, tenant, ownerSet}
	s.mu.Unlock()
	return s.Principal.Allow(access, tenant, ownerSet)
}

// recheck returns nil if the call would be allowed were it made now.
func (s *Session) recheck() error {
	p, err := s.auth.resolve(&s.evidence)
	if err != nil {
		return err
	}
	if p.Name != s.Principal.Name {
		return errInvalid // the credential is somebody else's now
	}
	s.mu.Lock()
	asked := s.asked
	s.mu.Unlock()
	if asked.access == 0 {
		return nil
	}
	return p.Allow(asked.access, asked.tenant, asked.ownerSet)
}

// watch is a call that lasts.
type watch struct {
	session *Session
	end     func(error)
}

// Watch calls end, at most once, when the call is not allowed any more, with the reason. It finds out when Run, or Refresh,
// next looks. stop ends the watch; it may be called again.
func (s *Session) Watch(end func(error)) (stop func()) {
	a, w := s.auth, &watch{session: s, end: end}
	a.mu.Lock()
	a.open[w] = struct{}{}
	a.mu.Unlock()
	return func() {
		a.mu.Lock()
		delete(a.open, w)
		a.mu.Unlock()
	}
}

// sweep ends what is not allowed any more. The lock is held while it looks, which takes well below a microsecond per watch,
// and not while calls end.
func (a *Authenticator) sweep() {
	type ended struct {
		*watch
		err error
	}
	var over []ended
	a.mu.Lock()
	for w := range a.open {
		if err := w.session.recheck(); err != nil {
			delete(a.open, w)
			over = append(over, ended{w, err})
		}
	}
	a.ended += int64(len(over))
	a.mu.Unlock()
	for _, w := range over {
		w.end(w.err)
	}
	if len(over) > 0 {
		a.cfg.Logger.Info("ended calls whose credentials do not allow them any more", "calls", len(over))
	}
}

// Ended is how many calls were ended because they were not allowed any more.
func (a *Authenticator) Ended() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}
