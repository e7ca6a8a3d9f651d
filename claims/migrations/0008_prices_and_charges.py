import claims.models.charges
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0004_notifications'),
        ('claims', '0007_bookings'),
        ('inventory', '0015_ledger_facts'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='pricebook',
            name='note',
            field=models.CharField(blank=True, default='', max_length=500),
        ),
        migrations.AddField(
            model_name='pricebook',
            name='published_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='pricebook',
            name='published_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.CreateModel(
            name='Budget',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('currency', models.CharField(max_length=3)),
                ('minor', models.BigIntegerField()),
                ('thresholds', models.JSONField(default=list)),
                ('blocks', models.BooleanField(default=False)),
                ('changed_at', models.DateTimeField()),
                ('changed_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='budgets', to='accounts.project')),
            ],
        ),
        migrations.CreateModel(
            name='BudgetAlert',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.CharField(max_length=7)),
                ('threshold', models.PositiveIntegerField()),
                ('told_at', models.DateTimeField()),
                ('budget', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='alerts', to='claims.budget')),
            ],
        ),
        migrations.CreateModel(
            name='Charge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('usage', 'use'), ('idle', "idle time, on the operator's account"), ('shared', 'part of the idle time, passed on'), ('correction', 'correction of a closed month'), ('credit', 'credit note'), ('adjustment', 'adjustment')], default='usage', max_length=10)),
                ('source', models.CharField(max_length=64)),
                ('month', models.CharField(max_length=7)),
                ('started_us', models.BigIntegerField()),
                ('ended_us', models.BigIntegerField(null=True)),
                ('cost_centre', models.CharField(blank=True, max_length=40)),
                ('claim_uid', models.CharField(blank=True, max_length=64)),
                ('epoch', models.IntegerField(default=0)),
                ('driver', models.CharField(blank=True, max_length=63)),
                ('pool_name', models.CharField(blank=True, max_length=253)),
                ('device_name', models.CharField(blank=True, max_length=253)),
                ('hardware_id', models.CharField(blank=True, max_length=128)),
                ('device_class', models.CharField(blank=True, max_length=253)),
                ('product', models.CharField(blank=True, max_length=128)),
                ('profile_digest', models.CharField(blank=True, max_length=64)),
                ('resource', models.CharField(blank=True, max_length=317)),
                ('use', models.CharField(default='held', max_length=6)),
                ('rule', models.PositiveIntegerField(null=True)),
                ('currency', models.CharField(blank=True, max_length=3)),
                ('unit', models.CharField(default='device', max_length=8)),
                ('per', models.CharField(blank=True, max_length=32)),
                ('quantity', claims.models.charges.FractionField(max_length=120)),
                ('list_micros', models.BigIntegerField(null=True)),
                ('discount_micros', models.IntegerField(default=0)),
                ('fixed', claims.models.charges.FractionField(max_length=120, null=True)),
                ('note', models.CharField(blank=True, max_length=500)),
                ('content', models.CharField(max_length=64)),
                ('closed', models.BooleanField(default=False)),
                ('book', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='claims.pricebook')),
                ('cluster', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='inventory.cluster')),
                ('origin', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='followed_by', to='claims.charge')),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='charges', to='accounts.project')),
            ],
        ),
        migrations.CreateModel(
            name='CostCentre',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('code', models.CharField(blank=True, max_length=40)),
                ('valid_from', models.DateTimeField()),
                ('valid_until', models.DateTimeField(blank=True, null=True)),
                ('recorded_at', models.DateTimeField()),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cost_centres', to='accounts.project')),
                ('recorded_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Dispute',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(choices=[('open', 'open'), ('accepted', 'accepted'), ('rejected', 'rejected'), ('withdrawn', 'withdrawn')], default='open', max_length=9)),
                ('opened_at', models.DateTimeField()),
                ('charge', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='disputes', to='claims.charge')),
                ('opened_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='disputes', to='accounts.project')),
            ],
        ),
        migrations.CreateModel(
            name='DisputeEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('state', models.CharField(choices=[('open', 'open'), ('accepted', 'accepted'), ('rejected', 'rejected'), ('withdrawn', 'withdrawn')], max_length=9)),
                ('text', models.CharField(max_length=1000)),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('dispute', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='entries', to='claims.dispute')),
            ],
        ),
        migrations.CreateModel(
            name='PriceDiscount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('cost_centre', models.CharField(blank=True, max_length=40)),
                ('percent', models.DecimalField(decimal_places=4, max_digits=7)),
                ('book', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='discounts', to='claims.pricebook')),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.project')),
            ],
        ),
        migrations.CreateModel(
            name='PriceDraft',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('document', models.JSONField()),
                ('version', models.PositiveIntegerField(default=1)),
                ('created_at', models.DateTimeField()),
                ('changed_at', models.DateTimeField()),
                ('changed_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='PriceRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('label', models.CharField(blank=True, max_length=80)),
                ('use', models.CharField(choices=[('held', 'held'), ('unused', 'held but not used'), ('idle', 'idle: nobody holds it')], default='held', max_length=6)),
                ('device_class', models.CharField(blank=True, max_length=253)),
                ('product', models.CharField(blank=True, max_length=128)),
                ('profile', models.CharField(blank=True, max_length=64)),
                ('resource', models.CharField(blank=True, max_length=317)),
                ('expression', models.CharField(blank=True, max_length=4000)),
                ('unit', models.CharField(choices=[('device', 'per device and hour'), ('capacity', 'per unit of capacity and hour'), ('counters', "per whole device and hour, by the partition's share of its counters")], default='device', max_length=8)),
                ('capacity', models.CharField(blank=True, max_length=320)),
                ('per', models.CharField(blank=True, max_length=32)),
                ('per_hour', models.DecimalField(decimal_places=6, max_digits=15)),
                ('book', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rules', to='claims.pricebook')),
            ],
        ),
        migrations.CreateModel(
            name='Statement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.CharField(max_length=7)),
                ('zone', models.CharField(max_length=64)),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField()),
                ('state', models.CharField(choices=[('open', 'open'), ('review', 'in review'), ('closed', 'closed')], default='open', max_length=6)),
                ('reviewed_at', models.DateTimeField(null=True)),
                ('closed_at', models.DateTimeField(null=True)),
                ('digest', models.CharField(blank=True, max_length=64)),
                ('closed_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='statements', to='accounts.project')),
                ('reviewed_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Adjustment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.CharField(max_length=7)),
                ('minor', models.BigIntegerField()),
                ('currency', models.CharField(max_length=3)),
                ('reason', models.CharField(max_length=500)),
                ('proposed_at', models.DateTimeField()),
                ('state', models.CharField(choices=[('proposed', 'waits for a second person'), ('approved', 'approved'), ('rejected', 'rejected')], default='proposed', max_length=8)),
                ('decided_at', models.DateTimeField(null=True)),
                ('decision_note', models.CharField(blank=True, max_length=500)),
                ('decided_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='adjustments', to='accounts.project')),
                ('proposed_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('refers_to', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='adjustments', to='claims.statement')),
            ],
        ),
        migrations.CreateModel(
            name='StatementLine',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('kind', models.CharField(choices=[('usage', 'use'), ('idle', "idle time, on the operator's account"), ('shared', 'part of the idle time, passed on'), ('correction', 'correction of a closed month'), ('credit', 'credit note'), ('adjustment', 'adjustment')], max_length=10)),
                ('cost_centre', models.CharField(blank=True, max_length=40)),
                ('device_class', models.CharField(blank=True, max_length=253)),
                ('product', models.CharField(blank=True, max_length=128)),
                ('use', models.CharField(blank=True, max_length=6)),
                ('unit', models.CharField(max_length=8)),
                ('per', models.CharField(blank=True, max_length=32)),
                ('currency', models.CharField(blank=True, max_length=3)),
                ('list_micros', models.BigIntegerField(null=True)),
                ('discount_micros', models.IntegerField(default=0)),
                ('time', claims.models.charges.FractionField(max_length=120)),
                ('exact', claims.models.charges.FractionField(max_length=120, null=True)),
                ('minor', models.BigIntegerField(null=True)),
                ('note', models.CharField(blank=True, max_length=500)),
                ('statement', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='lines', to='claims.statement')),
            ],
        ),
        migrations.CreateModel(
            name='BookedTotal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.CharField(max_length=7)),
                ('currency', models.CharField(max_length=3)),
                ('minor', models.BigIntegerField()),
                ('imported_at', models.DateTimeField()),
                ('imported_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'month', 'currency'), name='one_booked_total')],
            },
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.UniqueConstraint(fields=('project', 'currency'), name='one_budget_per_currency'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(('minor__gt', 0)), name='budget_positive'),
        ),
        migrations.AddConstraint(
            model_name='budgetalert',
            constraint=models.UniqueConstraint(fields=('budget', 'month', 'threshold'), name='told_once_a_month'),
        ),
        migrations.AddIndex(
            model_name='charge',
            index=models.Index(fields=['project', 'month'], name='charge_by_project'),
        ),
        migrations.AddIndex(
            model_name='charge',
            index=models.Index(fields=['month', 'kind'], name='charge_by_month'),
        ),
        migrations.AddIndex(
            model_name='charge',
            index=models.Index(fields=['started_us', 'id'], name='charge_by_time'),
        ),
        migrations.AddConstraint(
            model_name='charge',
            constraint=models.UniqueConstraint(fields=('source', 'kind', 'month', 'started_us', 'project'), name='charge_natural_key'),
        ),
        migrations.AddConstraint(
            model_name='charge',
            constraint=models.UniqueConstraint(condition=models.Q(('project', None)), fields=('source', 'kind', 'month', 'started_us'), name='charge_natural_key_of_nobody'),
        ),
        migrations.AddConstraint(
            model_name='charge',
            constraint=models.CheckConstraint(condition=models.Q(('ended_us', None), ('ended_us__gte', models.F('started_us')), _connector='OR'), name='charge_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='costcentre',
            constraint=models.UniqueConstraint(fields=('project', 'valid_from'), name='one_cost_centre_at_once'),
        ),
        migrations.AddConstraint(
            model_name='costcentre',
            constraint=models.CheckConstraint(condition=models.Q(('valid_until', None), ('valid_until__gt', models.F('valid_from')), _connector='OR'), name='cost_centre_period_not_empty'),
        ),
        migrations.AddConstraint(
            model_name='dispute',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'open')), fields=('charge',), name='one_open_dispute_per_charge'),
        ),
        migrations.AddConstraint(
            model_name='pricediscount',
            constraint=models.UniqueConstraint(fields=('book', 'position'), name='one_discount_per_position'),
        ),
        migrations.AddConstraint(
            model_name='pricediscount',
            constraint=models.CheckConstraint(condition=models.Q(('percent__gt', 0), ('percent__lte', 100)), name='discount_is_a_percentage'),
        ),
        migrations.AddConstraint(
            model_name='pricediscount',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('cost_centre__gt', ''), ('project', None)), models.Q(('cost_centre', ''), ('project__isnull', False)), _connector='OR'), name='discount_for_one_thing'),
        ),
        migrations.AddConstraint(
            model_name='pricerule',
            constraint=models.UniqueConstraint(fields=('book', 'position'), name='one_rule_per_position'),
        ),
        migrations.AddConstraint(
            model_name='pricerule',
            constraint=models.CheckConstraint(condition=models.Q(('per_hour__gte', 0)), name='rule_price_not_negative'),
        ),
        migrations.AddIndex(
            model_name='statement',
            index=models.Index(fields=['month', 'state'], name='claims_stat_month_4b5420_idx'),
        ),
        migrations.AddConstraint(
            model_name='statement',
            constraint=models.UniqueConstraint(fields=('project', 'month'), name='one_statement_a_month'),
        ),
        migrations.AddConstraint(
            model_name='statement',
            constraint=models.UniqueConstraint(condition=models.Q(('project', None)), fields=('month',), name='one_statement_a_month_of_nobody'),
        ),
        migrations.AddConstraint(
            model_name='statement',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('closed_at__isnull', False), ('state', 'closed'), models.Q(('digest', ''), _negated=True)), models.Q(('state', 'closed'), _negated=True), _connector='OR'), name='statement_closed_with_digest'),
        ),
        migrations.AddConstraint(
            model_name='adjustment',
            constraint=models.CheckConstraint(condition=models.Q(('minor', 0), _negated=True), name='adjustment_of_something'),
        ),
        migrations.AddConstraint(
            model_name='adjustment',
            constraint=models.CheckConstraint(condition=models.Q(('decided_by', None), models.Q(('decided_by', models.F('proposed_by')), _negated=True), _connector='OR'), name='adjustment_by_two_people'),
        ),
        migrations.AddConstraint(
            model_name='statementline',
            constraint=models.UniqueConstraint(fields=('statement', 'position'), name='one_line_per_position'),
        ),
    ]
