"""One run: what defines it (plan.py), its loop (session.py), what it leaves (run.py), and how that is read (loading.py)."""
