"""What any daemon needs: logs, metrics, health, life cycle. Imports none of ours."""
